
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.util.concurrent.ConcurrentLinkedDeque;
import javax.sql.DataSource;

/** Keeps connections for reuse, as in every deployment: ActiveMQ asks for one for each acknowledgement. */
final class Pool {
    private final DataSource source;
    private final ConcurrentLinkedDeque<Connection> idle = new ConcurrentLinkedDeque<>();

    private Pool(DataSource source) {
        this.source = source;
    }

    static DataSource of(DataSource source) {
        Pool pool = new Pool(source);
        return (DataSource) Proxy.newProxyInstance(
            Pool.class.getClassLoader(), new Class<?>[] {DataSource.class},
            (proxy, method, arguments) ->
                method.getName().equals("getConnection") ? pool.take() : call(source, method, arguments));
    }

    private Connection take() throws Exception {
        Connection kept = idle.pollFirst();
        Connection connection = kept != null ? kept : source.getConnection();
        boolean[] isReturned = new boolean[1];
        return (Connection) Proxy.newProxyInstance(
            Pool.class.getClassLoader(), new Class<?>[] {Connection.class},
            (proxy, method, arguments) -> {
                if (!method.getName().equals("close")) {
                    return call(connection, method, arguments);
                }
                if (!isReturned[0]) {
                    isReturned[0] = true;
                    giveBack(connection);
                }
                return null;
            });
    }

    private void giveBack(Connection connection) throws Exception {
        if (!connection.getAutoCommit()) {
            connection.rollback();
            connection.setAutoCommit(true);
        }
        idle.addFirst(connection);
    }

    private static Object call(Object target, Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }
}
