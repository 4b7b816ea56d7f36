import javax.jms.MessageProducer;
import javax.jms.Session;

/** Transactions of ten to twenty messages to two queues, and sometimes the topic. */
class BatchSender extends Worker {
    BatchSender(Load load, String name) {
        super(load, name);
    }

    @Override
    void work() throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = producer(session);
        while (mayProduce(Places.TX_A) && mayProduce(Places.TX_B)) {
            Effects effects = new Effects();
            int count = 10 + random.nextInt(11);
            for (int i = 0; i < count; i++) {
                String id = nextId();
                String destination = destination(i);
                producer.send(Places.destination(destination), message(session, id));
                effects.send(destination, id);
            }
            if (random.nextInt(10) == 0) {
                session.rollback();
            } else {
                commit(session, effects);
            }
        }
    }

    private String destination(int index) {
        if (index == 5 && random.nextInt(3) == 0) {
            return Places.TOPIC;
        }
        return index % 2 == 0 ? Places.TX_A : Places.TX_B;
    }

    void commit(Session session, Effects effects) throws Exception {
        attempt("tx", nextUnit(), effects, session::commit);
    }
}
