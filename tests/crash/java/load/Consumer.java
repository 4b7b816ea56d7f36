import java.util.ArrayList;
import java.util.List;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.Session;

/** Consumes in transactions of one to eight messages. */
class Consumer extends Worker {
    final String place;

    Consumer(Load load, String name, String place) {
        super(load, name);
        this.place = place;
    }

    @Override
    void work() throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageConsumer consumer = consumer(session);
        while (isOpen()) {
            consumeSome(session, consumer);
        }
    }

    MessageConsumer consumer(Session session) throws JMSException {
        return session.createConsumer(Places.destination(place));
    }

    final int consumeSome(Session session, MessageConsumer consumer) throws Exception {
        Effects effects = new Effects();
        List<String> ids = new ArrayList<>();
        int wanted = 1 + random.nextInt(8);
        for (String id; ids.size() < wanted && (id = receive(consumer, place)) != null; ) {
            ids.add(id);
            effects.take(place, id);
        }
        if (!ids.isEmpty()) {
            finish(session, ids, effects);
        }
        return ids.size();
    }

    void finish(Session session, List<String> ids, Effects effects) throws Exception {
        attempt("tx", nextUnit(), effects, session::commit);
    }
}
