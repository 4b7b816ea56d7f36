import java.util.Arrays;
import java.util.concurrent.Callable;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/** One producer on a connection of its own. */
final class Sender implements Callable<Long>, AutoCloseable {
    private static final int PARTS = 10;

    private final Work work;
    private final int source;
    private final Connection connection;
    private final Session session;
    private final MessageProducer producer;
    private final String padding;
    private final long[] partAt = new long[PARTS];
    private int parts;
    private volatile int sent;

    Sender(Work work, int source) throws JMSException {
        this.work = work;
        this.source = source;
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(work.uri());
        factory.setUseAsyncSend(work.async());
        connection = factory.createConnection();
        connection.start();
        session = connection.createSession(work.batch() > 0, Session.AUTO_ACKNOWLEDGE);
        producer = session.createProducer(session.createQueue(work.queue()));
        producer.setDeliveryMode(work.persistent() ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
        padding = "x".repeat(work.bodyBytes());
    }

    /** Send everything; returns when that was done. */
    @Override
    public Long call() throws JMSException {
        for (int number = 0; number < work.messages(); number++) {
            producer.send(session.createTextMessage(Tally.body(work.tag(), source, number, padding)));
            sent = number + 1;
            if (work.batch() > 0 && (sent % work.batch() == 0 || sent == work.messages())) {
                session.commit();
            }
            noteParts((int) ((long) sent * PARTS / work.messages()));
        }
        return System.nanoTime();
    }

    private void noteParts(int count) {
        if (count > parts) {
            Arrays.fill(partAt, parts, count, System.nanoTime());
            parts = count;
        }
    }

    int sent() {
        return sent;
    }

    /** When each tenth of the messages was sent. */
    long[] partAt() {
        return partAt;
    }

    @Override
    public void close() throws JMSException {
        connection.close();
    }
}
