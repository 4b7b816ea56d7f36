import javax.jms.Message;
import org.apache.activemq.ScheduledMessage;

/** Sends messages to be delivered later, many of them after the next kill. */
final class Scheduler extends Sender {
    private static final int DELAY_MAX_MS = 2_500;

    Scheduler(Load load, String name) {
        super(load, name, Places.LATER);
    }

    @Override
    void prepare(Message message, Effects effects) throws Exception {
        Thread.sleep(random.nextInt(20));
        int delay = 1 + random.nextInt(DELAY_MAX_MS);
        message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, delay);
        effects.due(System.currentTimeMillis() + delay);
    }
}
