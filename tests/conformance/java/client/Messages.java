import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageEOFException;
import javax.jms.ObjectMessage;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQMessage;

/** JMS messages built from, and described as, plain JSON values. */
final class Messages {
    private Messages() {}

    static Message build(Session session, Map<String, Object> description) throws JMSException {
        Message message = withBody(session, (String) description.get("kind"), description.get("body"));
        Object properties = description.getOrDefault("properties", Map.of());
        for (Map.Entry<String, Object> property : Values.decodeMap((Map<?, ?>) properties).entrySet()) {
            message.setObjectProperty(property.getKey(), property.getValue());
        }
        message.setJMSCorrelationID((String) description.get("correlation_id"));
        message.setJMSType((String) description.get("type"));
        if (description.get("reply_to") instanceof String replyTo) {
            message.setJMSReplyTo(destination(replyTo));
        }
        return message;
    }

    private static Message withBody(Session session, String kind, Object body) throws JMSException {
        return switch (kind) {
            case "plain" -> session.createMessage();
            case "text" -> session.createTextMessage((String) body);
            case "bytes" -> bytesMessage(session, (List<?>) body);
            case "stream" -> streamMessage(session, (List<?>) body);
            case "map" -> mapMessage(session, (Map<?, ?>) body);
            case "object" -> session.createObjectMessage((Serializable) Values.decode(body));
            default -> throw new IllegalArgumentException("no such message kind: " + kind);
        };
    }

    private static Message bytesMessage(Session session, List<?> pieces) throws JMSException {
        BytesMessage message = session.createBytesMessage();
        for (Object piece : Values.decodeList(pieces)) {
            message.writeObject(piece);
        }
        return message;
    }

    private static Message streamMessage(Session session, List<?> items) throws JMSException {
        StreamMessage message = session.createStreamMessage();
        for (Object item : Values.decodeList(items)) {
            message.writeObject(item);
        }
        return message;
    }

    private static Message mapMessage(Session session, Map<?, ?> entries) throws JMSException {
        MapMessage message = session.createMapMessage();
        for (Map.Entry<String, Object> entry : Values.decodeMap(entries).entrySet()) {
            message.setObject(entry.getKey(), entry.getValue());
        }
        return message;
    }

    static Map<String, Object> describe(Message message) throws JMSException {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("compressed", ((ActiveMQMessage) message).isCompressed());  // reading the body clears it
        describeBody(message, result);
        result.put("message_id", message.getJMSMessageID());
        result.put("destination", text(message.getJMSDestination()));
        result.put("reply_to", text(message.getJMSReplyTo()));
        result.put("correlation_id", message.getJMSCorrelationID());
        result.put("type", message.getJMSType());
        result.put("priority", message.getJMSPriority());
        result.put("delivery_mode", message.getJMSDeliveryMode());
        result.put("timestamp", message.getJMSTimestamp());
        result.put("expiration", message.getJMSExpiration());
        result.put("redelivered", message.getJMSRedelivered());
        result.put("delivery_count", message.getIntProperty("JMSXDeliveryCount"));
        result.put("group_id", message.getStringProperty("JMSXGroupID"));
        result.put("group_sequence", ((ActiveMQMessage) message).getGroupSequence());
        result.put("group_first", message.getBooleanProperty("JMSXGroupFirstForConsumer"));
        result.put("original_destination", text(((ActiveMQMessage) message).getOriginalDestination()));
        result.put("payload", Payloads.describe(((ActiveMQMessage) message).getDataStructure()));
        result.put("properties", properties(message));
        return result;
    }

    private static void describeBody(Message message, Map<String, Object> result) throws JMSException {
        if (message instanceof TextMessage text) {
            result.put("kind", "text");
            result.put("body", text.getText());
        } else if (message instanceof MapMessage map) {
            result.put("kind", "map");
            result.put("body", mapBody(map));
        } else if (message instanceof BytesMessage bytes) {
            result.put("kind", "bytes");
            result.put("body", bytesBody(bytes));
        } else if (message instanceof StreamMessage stream) {
            result.put("kind", "stream");
            result.put("body", streamBody(stream));
        } else if (message instanceof ObjectMessage object) {
            result.put("kind", "object");
            result.put("body", Values.encode(object.getObject()));
        } else {
            result.put("kind", "plain");
            result.put("body", null);
        }
    }

    private static Map<String, Object> mapBody(MapMessage message) throws JMSException {
        Map<String, Object> result = new LinkedHashMap<>();
        for (Object name : Collections.list((Enumeration<?>) message.getMapNames())) {
            result.put((String) name, Values.encode(message.getObject((String) name)));
        }
        return result;
    }

    private static Object bytesBody(BytesMessage message) throws JMSException {
        byte[] body = new byte[(int) message.getBodyLength()];
        int position = 0;
        while (position < body.length) {
            byte[] rest = new byte[body.length - position];
            int count = message.readBytes(rest);
            if (count <= 0) {
                throw new IllegalStateException("body ends at " + position + " of " + body.length);
            }
            System.arraycopy(rest, 0, body, position, count);
            position += count;
        }
        message.reset();
        return Values.encode(body);
    }

    private static List<Object> streamBody(StreamMessage message) throws JMSException {
        List<Object> result = new ArrayList<>();
        try {
            while (true) {
                result.add(Values.encode(message.readObject()));
            }
        } catch (MessageEOFException end) {
            message.reset();
            return result;
        }
    }

    /** The application's own properties: what JMSX names show is described as headers. */
    private static Map<String, Object> properties(Message message) throws JMSException {
        Map<String, Object> result = new LinkedHashMap<>();
        for (Object name : Collections.list((Enumeration<?>) message.getPropertyNames())) {
            if (!((String) name).startsWith("JMSX")) {
                result.put((String) name, Values.encode(message.getObjectProperty((String) name)));
            }
        }
        return result;
    }

    static ActiveMQDestination destination(String name) {
        if (name == null) {
            return null;
        }
        return ActiveMQDestination.createDestination(name, ActiveMQDestination.QUEUE_TYPE);
    }

    static String text(Object destination) {
        return destination == null ? null : ((ActiveMQDestination) destination).getQualifiedName();
    }
}
