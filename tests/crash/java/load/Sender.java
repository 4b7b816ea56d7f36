import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.Session;

/** Sends one message after the other, each answered by the broker before the next. */
class Sender extends Worker {
    private final String destination;

    Sender(Load load, String name, String destination) {
        super(load, name);
        this.destination = destination;
    }

    @Override
    void work() throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = producer(session);
        while (mayProduce(destination)) {
            String id = nextId();
            Message message = message(session, id);
            Effects effects = new Effects().send(destination, id);
            prepare(message, effects);
            attempt("send", id, effects, () -> producer.send(Places.destination(destination), message));
        }
    }

    /** A chance to add to the message. */
    void prepare(Message message, Effects effects) throws Exception {}
}
