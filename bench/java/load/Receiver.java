import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageListener;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;

/** One consumer on a connection of its own; takes messages from {@link #start} on. */
final class Receiver implements MessageListener, AutoCloseable {
    private final Work work;
    private final Tally tally;
    private final Connection connection;
    private final Session session;
    private int taken;
    private volatile Exception failure;

    Receiver(Work work, Tally tally) throws JMSException {
        this.work = work;
        this.tally = tally;
        connection = new ActiveMQConnectionFactory(work.uri()).createConnection();
        int mode = work.keepEvery() > 0 ? ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE : Session.AUTO_ACKNOWLEDGE;
        session = connection.createSession(work.batch() > 0, mode);
        session.createConsumer(session.createQueue(work.queue())).setMessageListener(this);
    }

    void start() throws JMSException {
        connection.start();
    }

    @Override
    public void onMessage(Message message) {
        try {
            int number = tally.add(((TextMessage) message).getText());
            taken++;
            if (work.keepEvery() > 0 && number % work.keepEvery() != 0) {
                message.acknowledge();
            }
            if (work.batch() > 0 && (taken % work.batch() == 0 || tally.isComplete())) {
                session.commit();
            }
            tally.finishIfComplete();
        } catch (JMSException | RuntimeException error) {
            failure = error;
        }
    }

    Exception failure() {
        return failure;
    }

    /** Returns when the broker has seen every acknowledgement. */
    @Override
    public void close() throws JMSException {
        connection.stop(); // waits for the listener, and with it for the last acknowledgement
        connection.close();
    }
}
