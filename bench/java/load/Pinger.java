import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Small requests at a steady rate, and somebody who answers them, each on a connection of its own. */
final class Pinger implements AutoCloseable {
    private static final String REQUESTS = "bench.requests";
    private static final String REPLIES = "bench.replies";
    private static final String NUMBER = "number";
    private static final int PINGS_MAX = 100_000;
    private static final long ANSWER_TIMEOUT_SECONDS = 60;

    private final Schedule schedule;
    private final Latencies latencies;
    private final Connection asking;
    private final Connection answering;
    private final Session session;
    private final MessageProducer requests;
    private final Thread thread = new Thread(this::ask, "pinger");
    private volatile int asked;
    private volatile boolean done;
    private volatile JMSException failure;

    Pinger(Work work) throws JMSException {
        schedule = new Schedule(work.pings);
        latencies = new Latencies(schedule, PINGS_MAX);
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(work.uri);
        answering = factory.createConnection();
        answerOn(answering.createSession(false, Session.AUTO_ACKNOWLEDGE));
        asking = factory.createConnection();
        session = asking.createSession(false, Session.AUTO_ACKNOWLEDGE);
        requests = producer(session, REQUESTS);
        Session replies = asking.createSession(false, Session.AUTO_ACKNOWLEDGE);
        replies.createConsumer(replies.createQueue(REPLIES)).setMessageListener(this::note);
    }

    private void answerOn(Session session) throws JMSException {
        MessageProducer replies = producer(session, REPLIES);
        session.createConsumer(session.createQueue(REQUESTS)).setMessageListener(request -> {
            try {
                Message reply = session.createMessage();
                reply.setIntProperty(NUMBER, request.getIntProperty(NUMBER));
                replies.send(reply);
            } catch (JMSException error) {
                failure = error;
            }
        });
    }

    private static MessageProducer producer(Session session, String queue) throws JMSException {
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        return producer;
    }

    void start() throws JMSException {
        answering.start();
        asking.start();
        schedule.start();
        thread.start();
    }

    private void ask() {
        try {
            for (int number = 0; !done && number < PINGS_MAX; number++) {
                schedule.await(number);
                Message request = session.createMessage();
                request.setIntProperty(NUMBER, number);
                requests.send(request);
                asked = number + 1;
            }
        } catch (JMSException error) {
            failure = error;
        }
    }

    private void note(Message reply) {
        try {
            latencies.note(reply.getIntProperty(NUMBER));
        } catch (JMSException error) {
            failure = error;
        }
    }

    /** No more requests; returns when all are answered. */
    void finish() throws Exception {
        done = true;
        thread.join();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(ANSWER_TIMEOUT_SECONDS);
        while (latencies.count() < asked && failure == null && System.nanoTime() < deadline) {
            Thread.sleep(1);
        }
        if (failure != null) {
            throw failure;
        }
        if (latencies.count() != asked) {
            throw new IllegalStateException(asked + " requests, " + latencies.count() + " replies");
        }
    }

    Latencies latencies() {
        return latencies;
    }

    @Override
    public void close() throws JMSException {
        asking.close();
        answering.close();
    }
}
