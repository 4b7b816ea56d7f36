import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Java values as ["type", value] pairs, so that the Python side sees a short as a short and a float as a float.
 * Floating point numbers travel as text (exact, NaN and infinities included), byte arrays as base64.
 */
final class Values {
    private Values() {}

    static Object decode(Object pair) {
        String type = (String) ((List<?>) pair).get(0);
        Object value = ((List<?>) pair).get(1);
        return switch (type) {
            case "null" -> null;
            case "boolean", "string" -> value;
            case "byte" -> ((Long) value).byteValue();
            case "short" -> ((Long) value).shortValue();
            case "char" -> ((String) value).charAt(0);
            case "int" -> ((Long) value).intValue();
            case "long" -> value;
            case "float" -> (float) Double.parseDouble((String) value);
            case "double" -> Double.parseDouble((String) value);
            case "bytes" -> Base64.getDecoder().decode((String) value);
            case "list" -> decodeList((List<?>) value);
            case "map" -> decodeMap((Map<?, ?>) value);
            default -> throw new IllegalArgumentException("no such type: " + type);
        };
    }

    static List<Object> decodeList(List<?> pairs) {
        List<Object> result = new ArrayList<>();
        pairs.forEach(pair -> result.add(decode(pair)));
        return result;
    }

    static Map<String, Object> decodeMap(Map<?, ?> pairs) {
        Map<String, Object> result = new LinkedHashMap<>();
        pairs.forEach((key, pair) -> result.put((String) key, decode(pair)));
        return result;
    }

    static List<Object> encode(Object value) {
        if (value == null) return pair("null", null);
        if (value instanceof Boolean) return pair("boolean", value);
        if (value instanceof Byte) return pair("byte", value);
        if (value instanceof Short) return pair("short", value);
        if (value instanceof Character) return pair("char", value.toString());
        if (value instanceof Integer) return pair("int", value);
        if (value instanceof Long) return pair("long", value);
        if (value instanceof Float number) return pair("float", Double.toString(number));
        if (value instanceof Double) return pair("double", value.toString());
        if (value instanceof byte[] bytes) return pair("bytes", Base64.getEncoder().encodeToString(bytes));
        if (value instanceof Collection<?> items) return pair("list", encodeList(items));
        if (value instanceof Map<?, ?> map) return pair("map", encodeMap(map));
        return pair("string", value.toString());
    }

    static List<Object> encodeList(Collection<?> items) {
        List<Object> result = new ArrayList<>();
        items.forEach(item -> result.add(encode(item)));
        return result;
    }

    static Map<String, Object> encodeMap(Map<?, ?> map) {
        Map<String, Object> result = new LinkedHashMap<>();
        map.forEach((key, value) -> result.put(key.toString(), encode(value)));
        return result;
    }

    private static List<Object> pair(String type, Object value) {
        List<Object> result = new ArrayList<>();
        result.add(type);
        result.add(value);
        return result;
    }
}
