import javax.sql.DataSource;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.store.jdbc.DefaultDatabaseLocker;
import org.apache.activemq.store.jdbc.JDBCPersistenceAdapter;
import org.apache.activemq.store.jdbc.LeaseDatabaseLocker;
import org.apache.activemq.store.jdbc.adapter.MySqlJDBCAdapter;

/**
 * The real ActiveMQ broker with its JDBC store and that store's defaults.
 *
 * <p>Arguments: the JDBC URL of the database, its user, the URI of a listener, a directory, and a locker that tries often:
 * "lease" (of two seconds) or "lock"; without it the default one.
 */
public final class JdbcBroker {
    private JdbcBroker() {}

    public static void main(String[] arguments) throws Exception {
        JDBCPersistenceAdapter store = new JDBCPersistenceAdapter();
        store.setDataSource(Pool.of(source(arguments[0], arguments[1])));
        if (arguments[0].startsWith("jdbc:mariadb:")) {
            store.setAdapter(new MySqlJDBCAdapter()); // it does not know this driver by its name
        }
        if (arguments.length > 4 && arguments[4].equals("lease")) {
            LeaseDatabaseLocker locker = new LeaseDatabaseLocker();
            locker.setLockAcquireSleepInterval(2_000);
            store.setLocker(locker);
            store.setLockKeepAlivePeriod(500);
        } else if (arguments.length > 4) {
            DefaultDatabaseLocker locker = new DefaultDatabaseLocker();
            locker.setLockAcquireSleepInterval(500);
            store.setLocker(locker);
        }
        BrokerService broker = new BrokerService();
        broker.setBrokerName("jdbc");
        broker.setUseJmx(false);
        broker.setDataDirectory(arguments[3]);
        broker.setPersistenceAdapter(store);
        broker.addConnector(arguments[2]);
        broker.start();
        broker.waitUntilStarted();
        System.out.println("activemq ready: " + broker.getTransportConnectors().get(0).getConnectUri());
        broker.waitUntilStopped();
    }

    private static DataSource source(String url, String user) throws Exception {
        if (url.startsWith("jdbc:postgresql:")) {
            org.postgresql.ds.PGSimpleDataSource source = new org.postgresql.ds.PGSimpleDataSource();
            source.setUrl(url);
            source.setUser(user);
            return source;
        }
        org.mariadb.jdbc.MariaDbDataSource source = new org.mariadb.jdbc.MariaDbDataSource(url);
        source.setUser(user);
        return source;
    }
}
