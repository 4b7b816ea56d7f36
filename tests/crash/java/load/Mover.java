import java.util.List;
import javax.jms.MessageProducer;
import javax.jms.Session;

/** Moves messages from one queue to another in transactions, of which it rolls back a few. */
final class Mover extends Consumer {
    Mover(Load load, String name) {
        super(load, name, Places.TX_B);
    }

    @Override
    void finish(Session session, List<String> ids, Effects effects) throws Exception {
        MessageProducer producer = producer(session);
        for (int i = 0; i < ids.size(); i++) {
            String id = nextId();
            producer.send(Places.destination(Places.MOVED), message(session, id));
            effects.send(Places.MOVED, id);
        }
        if (random.nextInt(10) == 0) {
            load.journal().line("undo " + name); // before: another may see them at once
            session.rollback();
        } else {
            attempt("tx", nextUnit(), effects, session::commit);
        }
        producer.close();
    }
}
