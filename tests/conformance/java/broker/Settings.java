import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.activemq.RedeliveryPolicy;
import org.apache.activemq.broker.BrokerPlugin;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.policy.ConstantPendingMessageLimitStrategy;
import org.apache.activemq.broker.region.policy.DeadLetterStrategy;
import org.apache.activemq.broker.region.policy.DiscardingDeadLetterStrategy;
import org.apache.activemq.broker.region.policy.FixedCountSubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.IndividualDeadLetterStrategy;
import org.apache.activemq.broker.region.policy.LastImageSubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.OldestMessageEvictionStrategy;
import org.apache.activemq.broker.region.policy.OldestMessageWithLowestPriorityEvictionStrategy;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;
import org.apache.activemq.broker.region.policy.RedeliveryPolicyMap;
import org.apache.activemq.broker.region.policy.SharedDeadLetterStrategy;
import org.apache.activemq.broker.util.RedeliveryPlugin;
import org.apache.activemq.broker.util.TimeStampingBrokerPlugin;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.security.SimpleAuthenticationPlugin;
import org.apache.activemq.util.IntrospectionSupport;

/**
 * Broker settings from the command line, each a name and options: {@code name;option=value;option=value}.
 *
 * <pre>
 *   broker;schedulerSupport=true
 *   usage;memory=100000;sendFailIfNoSpace=true
 *   policy;for=queue://a.>;prioritizedMessages=true;deadLetters=individual;deadLetters.processExpired=false
 *   timestamps;ttlCeiling=1000
 *   redelivery;maximumRedeliveries=2
 *   users;alice=her-password
 * </pre>
 */
final class Settings {
    private final BrokerService broker;
    private final List<PolicyEntry> policies = new ArrayList<>();
    private final List<BrokerPlugin> plugins = new ArrayList<>();

    Settings(BrokerService broker) {
        this.broker = broker;
    }

    void apply(String setting) {
        String[] parts = setting.split(";");
        Object target = switch (parts[0]) {
            case "broker" -> broker;
            case "usage" -> broker.getSystemUsage();
            case "policy" -> new PolicyEntry();
            case "timestamps" -> new TimeStampingBrokerPlugin();
            case "redelivery" -> new RedeliveryPolicy();
            case "users" -> new SimpleAuthenticationPlugin(new ArrayList<>());
            default -> throw new IllegalArgumentException("no such setting: " + setting);
        };
        for (int i = 1; i < parts.length; i++) {
            String[] option = parts[i].split("=", 2);
            set(target, option[0], option[1]);
        }
        if (target instanceof PolicyEntry policy) {
            policies.add(policy);
        } else if (target instanceof BrokerPlugin plugin) {
            plugins.add(plugin);
        } else if (target instanceof RedeliveryPolicy policy) {
            plugins.add(redelivery(policy));
        }
    }

    void finish() {
        PolicyMap map = new PolicyMap();
        map.setPolicyEntries(policies);
        broker.setDestinationPolicy(map);
        broker.setPlugins(plugins.toArray(new BrokerPlugin[0]));
    }

    private void set(Object target, String name, String value) {
        if (target instanceof PolicyEntry policy && setInPolicy(policy, name, value)) {
            return;
        }
        if (target instanceof SimpleAuthenticationPlugin users) {
            users.getUserPasswords().put(name, value);
            users.getUserGroups().put(name, Set.of());
        } else if (name.equals("memory")) {
            broker.getSystemUsage().getMemoryUsage().setLimit(Long.parseLong(value));
        } else if (!IntrospectionSupport.setProperty(target, name, value)) {
            throw new IllegalArgumentException("no such option: " + name);
        }
    }

    private static boolean setInPolicy(PolicyEntry policy, String name, String value) {
        switch (name) {
            case "for" -> policy.setDestination(
                ActiveMQDestination.createDestination(value, ActiveMQDestination.QUEUE_TYPE));
            case "deadLetters" -> policy.setDeadLetterStrategy(deadLetters(value));
            case "pendingLimit" -> {
                ConstantPendingMessageLimitStrategy limit = new ConstantPendingMessageLimitStrategy();
                limit.setLimit(Integer.parseInt(value));
                policy.setPendingMessageLimitStrategy(limit);
                policy.setMessageEvictionStrategy(new OldestMessageEvictionStrategy());
            }
            case "evictLowestPriority" -> policy.setMessageEvictionStrategy(
                new OldestMessageWithLowestPriorityEvictionStrategy());
            case "recoverCount" -> {
                FixedCountSubscriptionRecoveryPolicy recovery = new FixedCountSubscriptionRecoveryPolicy();
                recovery.setMaximumSize(Integer.parseInt(value));
                policy.setSubscriptionRecoveryPolicy(recovery);
            }
            case "recoverLast" -> policy.setSubscriptionRecoveryPolicy(new LastImageSubscriptionRecoveryPolicy());
            default -> {
                return name.startsWith("deadLetters.")
                    && IntrospectionSupport.setProperty(
                        policy.getDeadLetterStrategy(), name.substring("deadLetters.".length()), value);
            }
        }
        return true;
    }

    private static DeadLetterStrategy deadLetters(String kind) {
        return switch (kind) {
            case "shared" -> new SharedDeadLetterStrategy();
            case "individual" -> new IndividualDeadLetterStrategy();
            case "discard" -> new DiscardingDeadLetterStrategy();
            default -> throw new IllegalArgumentException("no such dead letter strategy: " + kind);
        };
    }

    private static BrokerPlugin redelivery(RedeliveryPolicy policy) {
        RedeliveryPolicyMap map = new RedeliveryPolicyMap();
        map.setDefaultEntry(policy);
        RedeliveryPlugin plugin = new RedeliveryPlugin();
        plugin.setRedeliveryPolicyMap(map);
        return plugin;
    }
}
