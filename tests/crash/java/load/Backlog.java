import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Roughly how many messages wait in each place: keeps producers from running away from consumers. */
final class Backlog {
    private final Map<String, Integer> counts = new ConcurrentHashMap<>();

    void add(String place, int change) {
        counts.merge(place, change, Integer::sum);
    }

    void set(String place, int count) {
        counts.put(place, count);
    }

    boolean isLong(String place) {
        return counts.getOrDefault(place, 0) > 150;
    }
}
