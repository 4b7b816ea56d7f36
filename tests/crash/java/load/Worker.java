import java.util.Random;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/** A thread that, in each round, connects and works until the connection breaks; what it tries is in the journal. */
abstract class Worker {
    private static final long FAILURE_NOTICED_MS = 3_000;

    interface Step {
        void run() throws Exception;
    }

    final String name;
    final Load load;
    Random random;
    ActiveMQConnection connection;
    private int lastId;
    private int lastUnit;

    Worker(Load load, String name) {
        this.load = load;
        this.name = name;
    }

    final void start(Random newRandom) {
        random = newRandom;
        Thread thread = new Thread(this::run, name);
        thread.setDaemon(true);
        thread.start();
    }

    private void run() {
        int round = 0;
        try {
            while (true) {
                round = load.gate().enter(name, round);
                runRound();
                load.gate().leave(name);
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }

    /** One round. */
    void runRound() throws InterruptedException {
        boolean broken = false;
        try {
            if (connection == null) {
                connect();
            }
            work();
        } catch (Exception problem) {
            report(problem);
            broken = true;
        }
        if (broken || !outlivesBroker()) {
            disconnect();
        }
    }

    /** Work until the round ends or the connection breaks. */
    abstract void work() throws Exception;

    /** Whether one connection serves all rounds: the client restores it. */
    boolean outlivesBroker() {
        return false;
    }

    ActiveMQConnection newConnection() throws JMSException {
        String url = outlivesBroker() ? load.failoverUrl() : load.url();
        return (ActiveMQConnection) new ActiveMQConnectionFactory(url).createConnection();
    }

    final void connect() throws JMSException {
        connection = newConnection();
        connection.start();
    }

    final void disconnect() {
        try {
            if (connection != null) {
                connection.close();
            }
        } catch (JMSException broken) {
            // it was broken before
        }
        connection = null;
    }

    /** "gone" if the connection broke, which a kill explains; "problem" if the broker refused or sent nonsense. */
    final void report(Exception problem) throws InterruptedException {
        boolean lost = connection == null ? causedByNetwork(problem) : isBrokenSoon();
        if (!lost) {
            problem.printStackTrace();
        }
        load.journal().line((lost ? "gone " : "problem ") + name + " " + Journal.oneLine(problem));
    }

    private static boolean causedByNetwork(Throwable problem) {
        return problem != null && (problem instanceof java.io.IOException || causedByNetwork(problem.getCause()));
    }

    /** Requests fail a moment before the connection knows that it is broken. */
    private boolean isBrokenSoon() throws InterruptedException {
        long deadline = System.currentTimeMillis() + FAILURE_NOTICED_MS;
        while (!connection.isTransportFailed() && System.currentTimeMillis() < deadline) {
            Thread.sleep(5);
        }
        return connection.isTransportFailed();
    }

    /** Whether to go on: the round is open and the connection is not known to be broken. */
    final boolean isOpen() throws JMSException {
        if (connection.isTransportFailed()) {
            throw new JMSException("connection broken");
        }
        return load.gate().isOpen();
    }

    final String nextId() {
        return name + "-" + ++lastId;
    }

    final String nextUnit() {
        return name + "#" + ++lastUnit;
    }

    /** Do *step*, of which the *effects* are certain if it returns, and in doubt if it fails. */
    final void attempt(String kind, String unit, Effects effects, Step step) throws Exception {
        load.journal().line("try " + kind + " " + unit + effects);
        try {
            step.run();
        } catch (Exception problem) {
            load.journal().line("fail " + unit + " " + Journal.oneLine(problem));
            throw problem;
        }
        load.journal().line("done " + unit);
        effects.applyTo(load.backlog());
    }

    static MessageProducer producer(Session session) throws JMSException {
        MessageProducer producer = session.createProducer(null);
        producer.setDeliveryMode(DeliveryMode.PERSISTENT);
        return producer;
    }

    final Message message(Session session, String id) throws JMSException {
        return session.createTextMessage(Texts.make(id, random));
    }

    /** The id of the next message, or null if there is none for a moment. */
    final String receive(MessageConsumer consumer, String place) throws JMSException {
        Message message = consumer.receive(30);
        return message == null ? null : see(message, place);
    }

    final String see(Message message, String place) throws JMSException {
        String id = Texts.idOf(message);
        load.journal().saw(name, place, id);
        return id;
    }

    /** Wait while consumers of *destination* are behind; false if the round ended. */
    final boolean mayProduce(String destination) throws Exception {
        while (isOpen()) {
            if (Places.reached(destination).stream().noneMatch(load.backlog()::isLong)) {
                return true;
            }
            Thread.sleep(2);
        }
        return false;
    }
}
