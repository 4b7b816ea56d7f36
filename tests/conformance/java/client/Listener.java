import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import javax.jms.Message;
import javax.jms.MessageListener;

/** Keeps what it was given, and throws for the first so many deliveries (all, if negative). */
final class Listener implements MessageListener {
    final BlockingQueue<Message> heard = new LinkedBlockingQueue<>();
    private long failuresLeft;

    Listener(long failures) {
        failuresLeft = failures;
    }

    @Override
    public void onMessage(Message message) {
        heard.add(message);
        if (failuresLeft != 0) {
            failuresLeft--;
            throw new IllegalStateException("the listener fails on purpose");
        }
    }
}
