import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQMessageConsumer;
import org.apache.activemq.ActiveMQMessageProducer;
import org.apache.activemq.AsyncCallback;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.openwire.OpenWireFormat;
import org.apache.activemq.transport.tcp.TcpTransport;

/** The JMS objects a test has open, each known to Python by a number. */
final class Client {
    private final Map<Long, Object> objects = new HashMap<>();
    private final List<String> asyncErrors = new CopyOnWriteArrayList<>();
    private long nextHandle = 1;

    /** A consumer, the session it belongs to and, if it listens, what its listener was given. */
    private record Consumer(MessageConsumer consumer, BlockingQueue<Message> heard) {}

    private record Producer(MessageProducer producer, Session session) {}

    Object connect(Request request) throws JMSException {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(request.text("url"));
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        connection.setExceptionListener(problem -> asyncErrors.add(problem.toString()));
        connection.setClientInternalExceptionListener(problem -> asyncErrors.add(problem.toString()));
        long handle = keep(connection);
        if (request.flag("start")) {
            connection.start();
        }
        return handle;
    }

    Object start(Request request) throws JMSException {
        connection(request).start();
        return null;
    }

    Object stop(Request request) throws JMSException {
        connection(request).stop();
        return null;
    }

    /** What negotiation settled and which options reached the client. */
    Object describeConnection(Request request) throws JMSException {
        ActiveMQConnection connection = connection(request);
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("client_id", connection.getClientID());
        OpenWireFormat format = (OpenWireFormat) connection.getTransport().narrow(TcpTransport.class).getWireFormat();
        result.put("version", connection.getProtocolVersion());
        result.put("tight", format.isTightEncodingEnabled());
        result.put("cached", format.isCacheEnabled());
        result.put("always_sync_send", connection.isAlwaysSyncSend());
        result.put("async_send", connection.isUseAsyncSend());
        result.put("optimize_acknowledge", connection.isOptimizeAcknowledge());
        result.put("producer_window_bytes", connection.getProducerWindowSize());
        result.put("queue_prefetch", connection.getPrefetchPolicy().getQueuePrefetch());
        return result;
    }

    Object closeConnection(Request request) throws JMSException {
        connection(request).close();
        return null;
    }

    Object session(Request request) throws JMSException {
        return keep(connection(request).createSession(false, (int) request.number("mode")));
    }

    Object closeSession(Request request) throws JMSException {
        session(request.handle("session")).close();
        return null;
    }

    Object producer(Request request) throws JMSException {
        Session session = session(request.handle("session"));
        return keep(new Producer(session.createProducer(Messages.destination(request.text("destination"))), session));
    }

    Object closeProducer(Request request) throws JMSException {
        ((Producer) get(request.handle("producer"))).producer().close();
        return null;
    }

    Object send(Request request) throws JMSException {
        Producer target = (Producer) get(request.handle("producer"));
        configure(target.producer(), request);
        List<Object> ids = new ArrayList<>();
        for (Object description : request.list("messages")) {
            Message message = Messages.build(target.session(), Request.asObject(description));
            target.producer().send(message);
            ids.add(message.getJMSMessageID());
        }
        return ids;
    }

    /** Sends with a completion callback each; answers how many succeeded once all were reported. */
    Object sendWithCallback(Request request) throws Exception {
        Producer target = (Producer) get(request.handle("producer"));
        List<?> descriptions = request.list("messages");
        CountDownLatch succeeded = new CountDownLatch(descriptions.size());
        AsyncCallback callback = new AsyncCallback() {
            @Override
            public void onSuccess() {
                succeeded.countDown();
            }

            @Override
            public void onException(JMSException problem) {
                asyncErrors.add(problem.toString());
            }
        };
        for (Object description : descriptions) {
            Message message = Messages.build(target.session(), Request.asObject(description));
            ((ActiveMQMessageProducer) target.producer()).send(message, callback);
        }
        succeeded.await(request.number("timeout_ms"), TimeUnit.MILLISECONDS);
        return descriptions.size() - succeeded.getCount();
    }

    private static void configure(MessageProducer producer, Request request) throws JMSException {
        producer.setDeliveryMode((int) request.number("delivery_mode"));
        producer.setPriority((int) request.number("priority"));
        producer.setTimeToLive(request.number("time_to_live_ms"));
    }

    Object consumer(Request request) throws JMSException {
        Session session = session(request.handle("session"));
        MessageConsumer consumer = session.createConsumer(Messages.destination(request.text("destination")));
        BlockingQueue<Message> heard = new LinkedBlockingQueue<>();
        if (request.flag("listen")) {
            consumer.setMessageListener(heard::add);
        }
        return keep(new Consumer(consumer, heard));
    }

    Object closeConsumer(Request request) throws JMSException {
        consumerOf(request).consumer().close();
        return null;
    }

    /** One message, or null: waits at most timeout_ms (0: does not wait, negative: without limit). */
    Object receive(Request request) throws JMSException {
        MessageConsumer consumer = consumerOf(request).consumer();
        long timeout = request.number("timeout_ms");
        if (timeout < 0) {
            return described(consumer.receive());
        }
        return described(timeout == 0 ? consumer.receiveNoWait() : consumer.receive(timeout));
    }

    /** Up to count messages, each waited for at most timeout_ms. */
    Object receiveMany(Request request) throws JMSException {
        MessageConsumer consumer = consumerOf(request).consumer();
        List<Object> result = new ArrayList<>();
        for (long left = request.number("count"); left > 0; left--) {
            Message message = consumer.receive(request.number("timeout_ms"));
            if (message == null) {
                break;
            }
            result.add(described(message));
        }
        return result;
    }

    /** What the listener heard since the last call: waits for the first, then takes what is there. */
    Object heard(Request request) throws Exception {
        BlockingQueue<Message> heard = consumerOf(request).heard();
        List<Object> result = new ArrayList<>();
        Message message = heard.poll(request.number("timeout_ms"), TimeUnit.MILLISECONDS);
        while (message != null) {
            result.add(described(message));
            message = heard.poll();
        }
        return result;
    }

    /** How many messages wait inside the client, dispatched by the broker and not yet received. */
    Object waiting(Request request) {
        return ((ActiveMQMessageConsumer) consumerOf(request).consumer()).getMessageSize();
    }

    Object acknowledge(Request request) throws JMSException {
        ((Message) get(request.handle("message"))).acknowledge();
        return null;
    }

    Object temporaryQueue(Request request) throws JMSException {
        TemporaryQueue queue = session(request.handle("session")).createTemporaryQueue();
        return ((ActiveMQDestination) queue).getQualifiedName();
    }

    /** Opens and closes a session with a producer and a consumer, so many times. */
    Object churn(Request request) throws JMSException {
        ActiveMQDestination destination = Messages.destination(request.text("destination"));
        for (long left = request.number("count"); left > 0; left--) {
            Session session = connection(request).createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(destination);
            MessageProducer producer = session.createProducer(destination);
            producer.close();
            consumer.close();
            session.close();
        }
        return null;
    }

    /** Closes every connection and forgets every object; answers the errors that no call had raised. */
    Object reset(Request request) {
        for (Object object : objects.values()) {
            if (object instanceof Connection connection) {
                close(connection);
            }
        }
        objects.clear();
        List<String> errors = new ArrayList<>(asyncErrors);
        asyncErrors.clear();
        return errors;
    }

    private void close(Connection connection) {
        try {
            connection.close();
        } catch (JMSException problem) {
            asyncErrors.add("close: " + problem);
        }
    }

    private Map<String, Object> described(Message message) throws JMSException {
        if (message == null) {
            return null;
        }
        Map<String, Object> result = Messages.describe(message);
        result.put("handle", keep(message));
        return result;
    }

    private ActiveMQConnection connection(Request request) {
        return (ActiveMQConnection) get(request.handle("connection"));
    }

    private Session session(long handle) {
        return (Session) get(handle);
    }

    private Consumer consumerOf(Request request) {
        return (Consumer) get(request.handle("consumer"));
    }

    private Object get(long handle) {
        return objects.get(handle);
    }

    private long keep(Object object) {
        objects.put(nextHandle, object);
        return nextHandle++;
    }
}
