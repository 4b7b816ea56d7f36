import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.XASession;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQXAConnection;
import org.apache.activemq.ActiveMQXAConnectionFactory;

/** Distributed transactions; some stay prepared until a later round finds and decides them. */
final class XaWorker extends Worker {
    private static final int LEFT_MAX = 3;

    private final XaTransactions transactions;

    XaWorker(Load load, String name) {
        super(load, name);
        transactions = new XaTransactions(load.journal());
    }

    @Override
    ActiveMQConnection newConnection() throws JMSException {
        return (ActiveMQConnection) new ActiveMQXAConnectionFactory(load.url()).createXAConnection();
    }

    @Override
    void work() throws Exception {
        XAResource decider = ((ActiveMQXAConnection) connection).createXASession().getXAResource();
        for (Xid xid : XaTransactions.recover(decider)) {
            transactions.decide(decider, xid, random.nextInt(10) < 7);
        }
        for (int left = 0; left < LEFT_MAX; left++) {
            workUntilOneIsLeft(LEFT_MAX);
            // The client cannot tell what an undecided transaction received from what the next one does.
            disconnect();
            connect();
        }
        workUntilOneIsLeft(0);
    }

    /** Transactions until the round ends, or one stays undecided, as one in *chance* does. */
    private void workUntilOneIsLeft(int chance) throws Exception {
        XASession session = ((ActiveMQXAConnection) connection).createXASession();
        XAResource resource = session.getXAResource();
        MessageConsumer consumer = session.createConsumer(Places.destination(Places.XA_IN));
        MessageProducer producer = producer(session);
        while (isOpen() && mayProduce(Places.XA_OUT)) {
            String unit = nextUnit();
            Xid xid = new XaTransactions.UnitXid(unit);
            resource.start(xid, XAResource.TMNOFLAGS);
            Effects effects = doSome(session, consumer, producer);
            resource.end(xid, XAResource.TMSUCCESS);
            if (random.nextInt(5) == 0) {
                attempt("tx", unit, effects, () -> resource.commit(xid, true));
                continue;
            }
            prepare(resource, xid, unit, effects);
            if (chance > 0 && random.nextInt(chance) == 0) {
                return;
            }
            transactions.decide(resource, xid, random.nextInt(5) > 0);
        }
    }

    private Effects doSome(XASession session, MessageConsumer consumer, MessageProducer producer) throws JMSException {
        Effects effects = new Effects();
        for (int i = random.nextInt(3); i > 0; i--) {
            String id = receive(consumer, Places.XA_IN);
            if (id != null) {
                effects.take(Places.XA_IN, id);
            }
        }
        for (int i = 1 + random.nextInt(4); i > 0; i--) {
            String id = nextId();
            producer.send(Places.destination(Places.XA_OUT), message(session, id));
            effects.send(Places.XA_OUT, id);
        }
        return effects;
    }

    private void prepare(XAResource resource, Xid xid, String unit, Effects effects) throws Exception {
        load.journal().line("xa-try xa " + unit + effects);
        try {
            resource.prepare(xid);
        } catch (Exception problem) {
            load.journal().line("fail " + unit + " " + Journal.oneLine(problem));
            throw problem;
        }
        load.journal().line("xa-prepared " + unit);
    }
}
