import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;

/** A durable subscriber; one that is not always there comes and goes, and misses whole rounds. */
final class Subscriber extends Consumer {
    private final boolean always;

    Subscriber(Load load, String place, boolean always) {
        super(load, place, place);
        this.always = always;
    }

    @Override
    ActiveMQConnection newConnection() throws JMSException {
        ActiveMQConnection made = super.newConnection();
        made.setClientID(place);
        return made;
    }

    @Override
    MessageConsumer consumer(Session session) throws JMSException {
        return session.createDurableSubscriber((Topic) Places.destination(Places.TOPIC), place);
    }

    @Override
    void runRound() throws InterruptedException {
        if (always || random.nextInt(3) > 0) {
            super.runRound();
        }
    }

    @Override
    void work() throws Exception {
        while (!always && isOpen()) {
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            MessageConsumer consumer = consumer(session);
            for (int left = random.nextInt(60); left > 0 && isOpen(); left--) {
                left -= consumeSome(session, consumer);
            }
            load.journal().line("undo " + name); // what the client had fetched comes again
            disconnect();
            Thread.sleep(random.nextInt(50));
            connect();
        }
        super.work();
    }
}
