import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Just enough JSON for the driver's line protocol: objects, lists, strings, integers, booleans, null.
 * Everything written is ASCII, so that no locale, NUL or lone surrogate can spoil a line.
 */
final class Json {
    private final String text;
    private int position;

    private Json(String text) {
        this.text = text;
    }

    static Object parse(String text) {
        return new Json(text).value();
    }

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        append(out, value);
        return out.toString();
    }

    private Object value() {
        skipSpace();
        return switch (text.charAt(position)) {
            case '{' -> object();
            case '[' -> list();
            case '"' -> string();
            case 't' -> word("true", Boolean.TRUE);
            case 'f' -> word("false", Boolean.FALSE);
            case 'n' -> word("null", null);
            default -> integer();
        };
    }

    private Map<String, Object> object() {
        Map<String, Object> result = new LinkedHashMap<>();
        position++;
        while (!closes('}')) {
            skipSpace();
            String key = string();
            expect(':');
            result.put(key, value());
        }
        return result;
    }

    private List<Object> list() {
        List<Object> result = new ArrayList<>();
        position++;
        while (!closes(']')) {
            result.add(value());
        }
        return result;
    }

    private String string() {
        StringBuilder result = new StringBuilder();
        expect('"');
        for (char c = text.charAt(position++); c != '"'; c = text.charAt(position++)) {
            result.append(c == '\\' ? escaped() : c);
        }
        return result.toString();
    }

    private char escaped() {
        char c = text.charAt(position++);
        switch (c) {
            case 'n': return '\n';
            case 't': return '\t';
            case 'r': return '\r';
            case 'b': return '\b';
            case 'f': return '\f';
            case 'u':
                position += 4;
                return (char) Integer.parseInt(text.substring(position - 4, position), 16);
            default: return c;
        }
    }

    private Long integer() {
        int start = position;
        while (position < text.length() && "-0123456789".indexOf(text.charAt(position)) >= 0) {
            position++;
        }
        return Long.valueOf(text.substring(start, position));
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, position)) {
            throw new IllegalArgumentException("bad JSON at " + position);
        }
        position += word.length();
        return value;
    }

    /** True, and past it, when the closing bracket comes next; otherwise past a comma, if there is one. */
    private boolean closes(char bracket) {
        skipSpace();
        char c = text.charAt(position);
        if (c == bracket || c == ',') {
            position++;
        }
        return c == bracket;
    }

    private void expect(char wanted) {
        skipSpace();
        if (text.charAt(position++) != wanted) {
            throw new IllegalArgumentException("expected " + wanted + " at " + (position - 1));
        }
    }

    private void skipSpace() {
        while (text.charAt(position) == ' ') {
            position++;
        }
    }

    private static void append(StringBuilder out, Object value) {
        if (value instanceof Map<?, ?> map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(separator);
                appendString(out, entry.getKey().toString());
                out.append(':');
                append(out, entry.getValue());
                separator = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof List<?> list) {
            out.append('[');
            for (int i = 0; i < list.size(); i++) {
                append(i == 0 ? out : out.append(','), list.get(i));
            }
            out.append(']');
        } else if (value instanceof String string) {
            appendString(out, string);
        } else {
            out.append(value);
        }
    }

    private static void appendEscaped(StringBuilder out, char c) {
        out.append("\\u");
        for (int shift = 12; shift >= 0; shift -= 4) {
            out.append(Character.forDigit((c >> shift) & 0xf, 16));
        }
    }

    private static void appendString(StringBuilder out, String string) {
        out.append('"');
        for (int i = 0; i < string.length(); i++) {
            char c = string.charAt(i);
            if (c < ' ' || c > '~' || c == '"' || c == '\\') {
                appendEscaped(out, c);
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
