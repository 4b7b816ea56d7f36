import java.util.LinkedHashMap;
import java.util.Map;
import javax.jms.JMSException;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQTextMessage;
import org.apache.activemq.command.ConnectionInfo;
import org.apache.activemq.command.ConsumerInfo;
import org.apache.activemq.command.DataStructure;
import org.apache.activemq.command.DestinationInfo;
import org.apache.activemq.command.ProducerInfo;
import org.apache.activemq.command.RemoveInfo;

/** What an advisory message is about: the command that it carries. */
final class Payloads {
    private Payloads() {}

    static Map<String, Object> describe(DataStructure payload) throws JMSException {
        if (payload == null) {
            return null;
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("type", payload.getClass().getSimpleName());
        if (payload instanceof ConnectionInfo info) {
            result.put("client_id", info.getClientId());
            result.put("id", info.getConnectionId().toString());
            result.put("user_name", info.getUserName());
            result.put("password", info.getPassword());
        } else if (payload instanceof ConsumerInfo info) {
            result.put("destination", Messages.text(info.getDestination()));
            result.put("id", info.getConsumerId().toString());
            result.put("selector", info.getSelector());
            result.put("subscription", info.getSubscriptionName());
            result.put("prefetch", info.getPrefetchSize());
        } else if (payload instanceof ProducerInfo info) {
            result.put("destination", Messages.text(info.getDestination()));
            result.put("id", info.getProducerId().toString());
        } else if (payload instanceof DestinationInfo info) {
            result.put("destination", Messages.text(info.getDestination()));
            result.put("operation", info.getOperationType());
            result.put("connection", info.getConnectionId() == null ? null : info.getConnectionId().toString());
        } else if (payload instanceof RemoveInfo info) {
            result.put("removed", info.getObjectId().getClass().getSimpleName());
            result.put("id", info.getObjectId().toString());
        } else if (payload instanceof ActiveMQMessage message) {
            result.put("message_id", message.getJMSMessageID());
            result.put("destination", Messages.text(message.getDestination()));
            result.put("body", message instanceof ActiveMQTextMessage text ? text.getText() : null);
        }
        return result;
    }
}
