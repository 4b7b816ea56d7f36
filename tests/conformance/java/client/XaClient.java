import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import javax.jms.JMSException;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQXAConnection;

/** XA: the session's resource driven by hand, as a transaction manager would. */
final class XaClient {
    private static final int FORMAT = 4711;

    private final Handles handles;

    XaClient(Handles handles) {
        this.handles = handles;
    }

    /** A transaction id made from two texts. */
    private record TextXid(String global, String branch) implements Xid {
        @Override
        public int getFormatId() {
            return FORMAT;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return global.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public byte[] getBranchQualifier() {
            return branch.getBytes(StandardCharsets.UTF_8);
        }
    }

    Object session(Request request) throws JMSException {
        return handles.keep(handles.get(ActiveMQXAConnection.class, request.handle("connection")).createXASession());
    }

    Object start(Request request) throws XAException {
        resource(request).start(xid(request), (int) request.number("flags"));
        return null;
    }

    Object end(Request request) throws XAException {
        resource(request).end(xid(request), (int) request.number("flags"));
        return null;
    }

    Object prepare(Request request) throws XAException {
        return resource(request).prepare(xid(request));
    }

    Object commit(Request request) throws XAException {
        resource(request).commit(xid(request), request.flag("one_phase"));
        return null;
    }

    Object rollback(Request request) throws XAException {
        resource(request).rollback(xid(request));
        return null;
    }

    Object forget(Request request) throws XAException {
        resource(request).forget(xid(request));
        return null;
    }

    /** The prepared transactions that the broker lists, as [format, global id, branch]. */
    Object recover(Request request) throws XAException {
        List<Object> result = new ArrayList<>();
        for (Xid xid : resource(request).recover((int) request.number("flags"))) {
            result.add(Arrays.asList(
                xid.getFormatId(), text(xid.getGlobalTransactionId()), text(xid.getBranchQualifier())));
        }
        return result;
    }

    Object isSameResource(Request request) throws XAException {
        return resource(request).isSameRM(handles.get(XASession.class, request.handle("other")).getXAResource());
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private XAResource resource(Request request) {
        return handles.get(XASession.class, request.handle("session")).getXAResource();
    }

    private static Xid xid(Request request) {
        return new TextXid(request.text("global"), request.text("branch"));
    }
}
