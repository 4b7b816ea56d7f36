import java.util.ArrayList;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQMessageConsumer;
import org.apache.activemq.ActiveMQMessageProducer;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.AsyncCallback;
import org.apache.activemq.RedeliveryPolicy;
import org.apache.activemq.advisory.AdvisorySupport;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQTempDestination;
import org.apache.activemq.openwire.OpenWireFormat;
import org.apache.activemq.transport.tcp.TcpTransport;
import org.apache.activemq.util.IntrospectionSupport;

/** The JMS objects a test has open, each known to Python by a number. */
final class Client {
    private final Handles handles;
    /** Since the last reset; what its connections complain of after it is lost with the old list, and harms no other test. */
    private volatile List<String> asyncErrors = new CopyOnWriteArrayList<>();

    Client(Handles handles) {
        this.handles = handles;
    }

    /** A consumer and its listener, if it has one. */
    private record Consumer(MessageConsumer consumer, Listener listener) {}

    private record Producer(MessageProducer producer, Session session) {}

    Object connect(Request request) throws JMSException {
        ActiveMQConnection connection = newConnection(request.text("url"), request.flag("xa"));
        List<String> errors = asyncErrors;
        connection.setExceptionListener(problem -> errors.add(problem.toString()));
        connection.setClientInternalExceptionListener(problem -> errors.add(problem.toString()));
        long handle = keep(connection);
        if (request.flag("start")) {
            connection.start();
        }
        return handle;
    }

    private static ActiveMQConnection newConnection(String url, boolean xa) throws JMSException {
        if (xa) {
            return (ActiveMQConnection) new ActiveMQXAConnectionFactory(url).createXAConnection();
        }
        return (ActiveMQConnection) new ActiveMQConnectionFactory(url).createConnection();
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
        int mode = (int) request.number("mode");
        return keep(connection(request).createSession(mode == Session.SESSION_TRANSACTED, mode));
    }

    Object commit(Request request) throws JMSException {
        session(request.handle("session")).commit();
        return null;
    }

    Object rollback(Request request) throws JMSException {
        session(request.handle("session")).rollback();
        return null;
    }

    Object recover(Request request) throws JMSException {
        session(request.handle("session")).recover();
        return null;
    }

    Object unsubscribe(Request request) throws JMSException {
        session(request.handle("session")).unsubscribe(request.text("name"));
        return null;
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
        producerOf(request).producer().close();
        return null;
    }

    Object send(Request request) throws JMSException {
        Producer target = producerOf(request);
        configure(target.producer(), request);
        List<Object> ids = new ArrayList<>();
        for (Object description : request.list("messages")) {
            Message message = Messages.build(target.session(), Request.asObject(description));
            if (request.has("destination")) {
                target.producer().send(Messages.destination(request.text("destination")), message);
            } else {
                target.producer().send(message);
            }
            ids.add(message.getJMSMessageID());
        }
        return ids;
    }

    /** Sends with a completion callback each; answers how many succeeded once all were reported. */
    Object sendWithCallback(Request request) throws Exception {
        Producer target = producerOf(request);
        List<?> descriptions = request.list("messages");
        CountDownLatch succeeded = new CountDownLatch(descriptions.size());
        List<String> errors = asyncErrors;
        AsyncCallback callback = new AsyncCallback() {
            @Override
            public void onSuccess() {
                succeeded.countDown();
            }

            @Override
            public void onException(JMSException problem) {
                errors.add(problem.toString());
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
        MessageConsumer consumer = newConsumer(session(request.handle("session")), request);
        Listener listener = null;
        if (request.flag("listen")) {
            listener = new Listener(request.number("failures"));
            consumer.setMessageListener(listener);
        }
        return keep(new Consumer(consumer, listener));
    }

    private static MessageConsumer newConsumer(Session session, Request request) throws JMSException {
        ActiveMQDestination destination = Messages.destination(request.text("destination"));
        String selector = request.text("selector");
        if (request.has("durable")) {
            return session.createDurableSubscriber(
                (Topic) destination, request.text("durable"), selector, request.flag("no_local"));
        }
        return session.createConsumer(destination, selector, request.flag("no_local"));
    }

    /** All that a browser shows, from its beginning to its end. */
    Object browse(Request request) throws JMSException {
        Queue queue = (Queue) Messages.destination(request.text("destination"));
        QueueBrowser browser = session(request.handle("session")).createBrowser(queue, request.text("selector"));
        List<Object> result = new ArrayList<>();
        for (Enumeration<?> messages = browser.getEnumeration(); messages.hasMoreElements(); ) {
            result.add(described((Message) messages.nextElement()));
        }
        browser.close();
        return result;
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

    /** Receives a message and sends it on; answers the length of its body, 0 if it is no bytes message. */
    Object forward(Request request) throws JMSException {
        Message message = consumerOf(request).consumer().receive(request.number("timeout_ms"));
        producerOf(request).producer().send(message);
        return message instanceof BytesMessage bytes ? bytes.getBodyLength() : 0;
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
        BlockingQueue<Message> heard = consumerOf(request).listener().heard;
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
        handles.get(Message.class, request.handle("message")).acknowledge();
        return null;
    }

    Object temporaryQueue(Request request) throws JMSException {
        return Messages.text(session(request.handle("session")).createTemporaryQueue());
    }

    Object temporaryTopic(Request request) throws JMSException {
        return Messages.text(session(request.handle("session")).createTemporaryTopic());
    }

    Object deleteTemporary(Request request) throws JMSException {
        connection(request).deleteTempDestination(
            (ActiveMQTempDestination) Messages.destination(request.text("destination")));
        return null;
    }

    /** Take the connection back and keep its socket; with an id, the next use announces it under that. */
    Object cleanUp(Request request) throws JMSException {
        connection(request).doCleanup(true);
        if (request.text("client_id") != null) {
            connection(request).setClientID(request.text("client_id"));
        }
        connection(request).start();
        return null;
    }

    Object destroyDestination(Request request) throws JMSException {
        connection(request).destroyDestination(Messages.destination(request.text("destination")));
        return null;
    }

    /** The redelivery policy for the destinations that a name, possibly with wildcards, stands for. */
    Object redeliveryPolicy(Request request) throws JMSException {
        RedeliveryPolicy policy = connection(request).getRedeliveryPolicy().copy();
        for (Map.Entry<String, Object> option : request.part("options").fields().entrySet()) {
            IntrospectionSupport.setProperty(policy, option.getKey(), String.valueOf(option.getValue()));
        }
        connection(request).getRedeliveryPolicyMap().put(Messages.destination(request.text("destination")), policy);
        return null;
    }

    /** The name of an advisory topic as AdvisorySupport knows it, for example "Consumer" of a queue. */
    Object advisoryTopic(Request request) throws ReflectiveOperationException {
        String method = "get" + request.text("kind") + "AdvisoryTopic";
        Object topic = request.has("destination")
            ? AdvisorySupport.class.getMethod(method, ActiveMQDestination.class)
                .invoke(null, Messages.destination(request.text("destination")))
            : AdvisorySupport.class.getMethod(method).invoke(null);
        return Messages.text(topic);
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
        for (Object object : handles.all()) {
            if (object instanceof Connection connection) {
                close(connection);
            }
        }
        handles.forgetAll();
        List<String> errors = asyncErrors;
        asyncErrors = new CopyOnWriteArrayList<>();
        return new ArrayList<>(errors);
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
        return handles.get(ActiveMQConnection.class, request.handle("connection"));
    }

    private Session session(long handle) {
        return handles.get(Session.class, handle);
    }

    private Producer producerOf(Request request) {
        return handles.get(Producer.class, request.handle("producer"));
    }

    private Consumer consumerOf(Request request) {
        return handles.get(Consumer.class, request.handle("consumer"));
    }

    private long keep(Object object) {
        return handles.keep(object);
    }
}
