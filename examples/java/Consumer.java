import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.command.ActiveMQDestination;

/**
 * Receives until its standard input ends: java Consumer URL EVENTS_FILE NAME DESTINATION MODE [STALL_AFTER].
 *
 * <p>Prints "ready" once the broker knows it. With STALL_AFTER it stops after that many messages, holds what it has
 * not acknowledged, prints "stalled" and waits to be killed.
 */
public final class Consumer {
    private static final Map<String, Integer> MODES = Map.of(
            "auto", Session.AUTO_ACKNOWLEDGE,
            "client", Session.CLIENT_ACKNOWLEDGE,
            "individual", ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
    private static final int CLIENT_BATCH = 10; // in mode "client", one acknowledgement for this many
    private static final long RECEIVE_MS = 200;

    private final MessageConsumer consumer;
    private final Events events;
    private final int batchSize;
    private final List<Message> batch = new ArrayList<>();
    private volatile boolean stopping;

    private Consumer(MessageConsumer consumer, Events events, int batchSize) {
        this.consumer = consumer;
        this.events = events;
        this.batchSize = batchSize;
    }

    public static void main(String[] args) throws Exception {
        String destination = args[3];
        String mode = args[4];
        int stallAfter = args.length > 5 ? Integer.parseInt(args[5]) : Integer.MAX_VALUE;
        Connection connection = new ActiveMQConnectionFactory(args[0]).createConnection();
        connection.start();
        Session session = connection.createSession(false, MODES.get(mode));
        MessageConsumer consumer = session.createConsumer(
                ActiveMQDestination.createDestination(destination, ActiveMQDestination.QUEUE_TYPE));
        Events events = new Events(args[1], args[2], destination);
        new Consumer(consumer, events, mode.equals("client") ? CLIENT_BATCH : 1).run(stallAfter);
        connection.close();
    }

    private void run(int stallAfter) throws Exception {
        System.out.println("ready");
        stopWhenInputEnds();
        for (int received = 0; received < stallAfter && !stopping; ) {
            Message message = consumer.receive(RECEIVE_MS);
            if (message != null) {
                received++;
                events.received(message);
                batch.add(message);
            }
            if (batch.size() >= batchSize || message == null) {
                acknowledgeBatch();
            }
        }
        if (stopping) {
            acknowledgeBatch();
        } else {
            stall();
        }
    }

    private void stall() throws InterruptedException {
        System.out.println("stalled");
        while (!stopping) {
            Thread.sleep(RECEIVE_MS);
        }
    }

    /** With AUTO_ACKNOWLEDGE the client has done it inside receive, and acknowledge does nothing. */
    private void acknowledgeBatch() throws JMSException {
        if (!batch.isEmpty()) {
            batch.get(batch.size() - 1).acknowledge();
        }
        for (Message message : batch) {
            events.acknowledged(message);
        }
        batch.clear();
    }

    private void stopWhenInputEnds() {
        Thread watcher = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // nothing that is said matters, only the end
                }
            } catch (IOException gone) {
                // the same as the end
            }
            stopping = true;
        });
        watcher.setDaemon(true);
        watcher.start();
    }
}
