import javax.jms.Session;
import javax.jms.TransactionRolledBackException;

/** Transactions over a connection that lives through all kills: the client repeats the sends of an unfinished one. */
final class FailoverBatchSender extends BatchSender {
    FailoverBatchSender(Load load, String name) {
        super(load, name);
    }

    @Override
    boolean outlivesBroker() {
        return true;
    }

    @Override
    void commit(Session session, Effects effects) throws Exception {
        try {
            super.commit(session, effects);
        } catch (TransactionRolledBackException inDoubt) {
            // raised when the commit was on its way as the connection broke: it may have been done
        }
    }
}
