import java.util.ArrayList;
import java.util.List;

/** What one send, acknowledgement or transaction does: messages that appear in places, and messages taken from them. */
final class Effects {
    private record Effect(char sign, String place, String id) {}

    private final List<Effect> effects = new ArrayList<>();
    private long dueMs;

    Effects send(String destination, String id) {
        for (String place : Places.reached(destination)) {
            effects.add(new Effect('+', place, id));
        }
        return this;
    }

    Effects take(String place, String id) {
        effects.add(new Effect('-', place, id));
        return this;
    }

    /** Not visible before this time. */
    Effects due(long timeMs) {
        dueMs = timeMs;
        return this;
    }

    void applyTo(Backlog backlog) {
        for (Effect effect : effects) {
            backlog.add(effect.place, effect.sign == '+' ? 1 : -1);
        }
    }

    /** As in the journal: " +place/id -place/id @due". */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        for (Effect effect : effects) {
            text.append(' ').append(effect.sign).append(effect.place).append('/').append(effect.id);
        }
        return dueMs == 0 ? text.toString() : text.append(" @").append(dueMs).toString();
    }
}
