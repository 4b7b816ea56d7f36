import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;

/** A connection of the ActiveMQ client; all that the work does not say is the client's default. */
final class JmsLink implements Link {
    private static final String SUBSCRIPTION = "bench";
    private static final String SELECTED = "kind";

    private final Work work;
    private final Connection connection;
    private final String padding;
    private Session sending;
    private MessageProducer producer;
    private Session receiving;
    private MessageConsumer consumer;

    JmsLink(Work work, String name) throws JMSException {
        this.work = work;
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(work.uri);
        factory.setUseAsyncSend(work.async);
        connection = factory.createConnection();
        connection.setClientID(name);
        padding = "x".repeat(work.bodyBytes);
    }

    @Override
    public void prepareToSend(String destination) throws JMSException {
        sending = connection.createSession(work.batch > 0, Session.AUTO_ACKNOWLEDGE);
        producer = sending.createProducer(destination(sending, destination));
        producer.setDeliveryMode(work.persistent ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
    }

    @Override
    public void send(String label, int number) throws JMSException {
        boolean fits = label.length() <= work.bodyBytes;
        TextMessage message = sending.createTextMessage(fits ? label + padding.substring(label.length()) : padding);
        if (!fits) {
            message.setJMSCorrelationID(label);
        }
        if (work.selectors > 0) {
            message.setIntProperty(SELECTED, number % work.selectors);
        }
        producer.send(message);
    }

    @Override
    public void commit() throws JMSException {
        sending.commit();
    }

    @Override
    public void prepareToReceive(String name, int index, Taker taker) throws JMSException {
        int mode = work.keepEvery > 0 ? ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE : Session.AUTO_ACKNOWLEDGE;
        receiving = connection.createSession(work.batch > 0, mode);
        String selector = work.selectors > 0 ? SELECTED + " = " + index % work.selectors : null;
        Destination destination = destination(receiving, name);
        consumer = work.durable
                ? receiving.createDurableSubscriber((Topic) destination, SUBSCRIPTION, selector, false)
                : receiving.createConsumer(destination, selector);
        consumer.setMessageListener(message -> pass((TextMessage) message, taker));
    }

    private void pass(TextMessage message, Taker taker) {
        try {
            String label = message.getJMSCorrelationID();
            String body = message.getText();
            taker.take(label == null ? body : label, body.length(), new JmsSettlement(message));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private Destination destination(Session session, String name) throws JMSException {
        return work.topic ? session.createTopic(name) : session.createQueue(name);
    }

    @Override
    public void start() throws JMSException {
        connection.start();
    }

    @Override
    public void close() throws JMSException {
        connection.stop(); // waits for the listener, and with it for the last acknowledgement
        if (consumer != null && work.durable) {
            consumer.close();
            receiving.unsubscribe(SUBSCRIPTION);
        }
        connection.close();
    }

    private final class JmsSettlement implements Settlement {
        private final Message message;

        JmsSettlement(Message message) {
            this.message = message;
        }

        @Override
        public void acknowledge() throws JMSException {
            message.acknowledge();
        }

        @Override
        public void commit() throws JMSException {
            receiving.commit();
        }
    }
}
