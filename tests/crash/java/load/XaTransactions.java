import java.nio.charset.StandardCharsets;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/** Transaction ids made from the names of units, and decisions about prepared transactions. */
final class XaTransactions {
    private final Journal journal;

    XaTransactions(Journal journal) {
        this.journal = journal;
    }

    record UnitXid(String unit) implements Xid {
        @Override
        public int getFormatId() {
            return 4711;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return unit.getBytes(StandardCharsets.US_ASCII);
        }

        @Override
        public byte[] getBranchQualifier() {
            return new byte[] {1};
        }
    }

    static Xid[] recover(XAResource resource) throws XAException {
        return resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN);
    }

    static String unitOf(Xid xid) {
        return new String(xid.getGlobalTransactionId(), StandardCharsets.US_ASCII);
    }

    void decide(XAResource resource, Xid xid, boolean commit) throws XAException {
        String unit = unitOf(xid);
        journal.line("xa-decide " + unit + " " + (commit ? "commit" : "rollback"));
        try {
            if (commit) {
                resource.commit(xid, false);
            } else {
                resource.rollback(xid);
            }
        } catch (XAException problem) {
            journal.line("xa-doubt " + unit + " " + problem.errorCode);
            throw problem;
        }
        journal.line("xa-decided " + unit);
    }
}
