package poolwright.kv;

import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Predicate;
import poolwright.driver.Failure;

/**
 * The effective settings of one store of one engine: {@code ENGINE.STORE.SETTING} overrides {@code ENGINE.SETTING}, which
 * overrides the default.
 *
 * <p>If the engine does not use a setting, an explicit value that differs from the engine's behaviour is refused; otherwise
 * {@link #unused} lists the setting.
 */
final class Settings {
    /** Origin of a value; later ones override earlier ones. */
    private enum Origin {
        DEFAULT,
        GLOBAL,
        STORE
    }

    private record Value(Origin origin, String name, String text) {}

    final EngineKind engine;
    final String store;
    private final Map<Setting, Value> values = new EnumMap<>(Setting.class);

    /**
     * Selects the settings for this engine and store from {@code given}. Those for other engines or stores are ignored, but
     * unknown names are refused.
     */
    Settings(EngineKind engine, String store, Map<String, String> given) {
        this.engine = engine;
        this.store = store;
        for (Setting setting : Setting.values()) {
            values.put(setting, new Value(Origin.DEFAULT, engine.word + "." + setting.word, setting.otherwise));
        }
        given.forEach(this::take);
        for (Setting setting : Setting.values()) {
            check(setting, values.get(setting));
        }
    }

    private void take(String name, String text) {
        int dot = name.indexOf('.');
        String rest = name.substring(dot + 1);
        boolean ours = EngineKind.of(dot < 0 ? name : name.substring(0, dot)) == engine;
        Optional<Setting> global = Setting.of(rest);
        if (global.isPresent()) {
            keep(ours, global.get(), new Value(Origin.GLOBAL, name, text));
            return;
        }
        int second = rest.indexOf('.');
        Setting setting = Setting.of(rest.substring(second + 1)).orElseThrow(() -> unknown(name));
        if (second < 1) {
            throw unknown(name);
        }
        keep(ours && rest.substring(0, second).equals(store), setting, new Value(Origin.STORE, name, text));
    }

    private void keep(boolean ours, Setting setting, Value value) {
        if (ours && value.origin.compareTo(values.get(setting).origin) > 0) {
            values.put(setting, value);
        }
    }

    private static Failure unknown(String name) {
        return new Failure("unknown setting '" + name + "'; a name is ENGINE.SETTING or ENGINE.STORE.SETTING,"
                + " and SETTING one of " + String.join(", ", words(setting -> true)));
    }

    private void check(Setting setting, Value value) {
        long number = setting.parse(value.name, value.text);
        Setting.Use use = setting.by(engine);
        if (use.honoured() || value.origin == Origin.DEFAULT) {
            return;
        }
        if (use.always() == null || setting.parse(value.name, use.always()) != number) {
            throw new Failure(value.name + "=" + value.text + " is not supported by " + engine.title + ": " + use.how());
        }
    }

    /** Returns a count, or bytes. */
    long number(Setting setting) {
        if (!setting.by(engine).honoured()) {
            throw new IllegalStateException(setting.word + " is not used by " + engine.word);
        }
        Value value = values.get(setting);
        return setting.parse(value.name, value.text);
    }

    /** Returns a count or size as an {@code int}. */
    int whole(Setting setting) {
        return Math.toIntExact(number(setting));
    }

    boolean flag(Setting setting) {
        return number(setting) != 0;
    }

    /** Returns the effective settings, one word each. */
    List<String> used() {
        return values.entrySet().stream()
                .filter(entry -> entry.getKey().by(engine).honoured())
                .map(entry -> entry.getKey().word + "=" + entry.getValue().text)
                .toList();
    }

    /** Returns the settings that this engine does not use. */
    List<String> unused() {
        return words(setting -> !setting.by(engine).honoured());
    }

    private static List<String> words(Predicate<Setting> which) {
        return Arrays.stream(Setting.values()).filter(which).map(setting -> setting.word).toList();
    }
}
