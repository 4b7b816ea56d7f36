import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.store.jdbc.JDBCPersistenceAdapter;
import org.postgresql.ds.PGPoolingDataSource;

/**
 * The real ActiveMQ broker with its JDBC store, that store's defaults, and a pool of connections to PostgreSQL.
 *
 * <p>Arguments: the JDBC URL of the database, its user, the URI of a listener, and a directory.
 */
public final class PooledJdbcBroker {
    private static final int CONNECTIONS_MAX = 40;

    private PooledJdbcBroker() {}

    @SuppressWarnings("deprecation") // the driver's own pool is good enough here
    public static void main(String[] arguments) throws Exception {
        PGPoolingDataSource source = new PGPoolingDataSource();
        source.setUrl(arguments[0]);
        source.setUser(arguments[1]);
        source.setMaxConnections(CONNECTIONS_MAX);
        JDBCPersistenceAdapter store = new JDBCPersistenceAdapter();
        store.setDataSource(source);
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
}
