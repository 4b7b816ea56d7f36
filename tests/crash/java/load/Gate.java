import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;

/** Lets each worker through once per round, and knows who has not come back. */
final class Gate {
    private final TreeSet<String> busy = new TreeSet<>();
    private int round;
    private boolean open;

    /** Waits for a round after *last*; returns its number. */
    synchronized int enter(String worker, int last) throws InterruptedException {
        while (!open || round <= last) {
            wait();
        }
        busy.add(worker);
        return round;
    }

    synchronized void leave(String worker) {
        busy.remove(worker);
        notifyAll();
    }

    synchronized void open(int newRound) {
        round = newRound;
        open = true;
        notifyAll();
    }

    synchronized void close() {
        open = false;
    }

    synchronized boolean isOpen() {
        return open;
    }

    /** Waits until nobody works; returns who still does after *timeoutMs*. */
    synchronized List<String> awaitParked(long timeoutMs) throws InterruptedException {
        long deadline = System.currentTimeMillis() + timeoutMs;
        while (!busy.isEmpty() && System.currentTimeMillis() < deadline) {
            wait(100);
        }
        return new ArrayList<>(busy);
    }
}
