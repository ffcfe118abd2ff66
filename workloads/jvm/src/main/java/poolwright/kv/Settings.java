package poolwright.kv;

import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Predicate;
import poolwright.driver.Failure;

/**
 * What is in force for one store of one engine: {@code ENGINE.STORE.SETTING} before {@code ENGINE.SETTING} before the default.
 *
 * <p>A setting that the engine has no use for is refused where somebody set it to what the engine does not do, and listed by
 * {@link #unused} where nobody did.
 */
final class Settings {
    /** Where a value comes from; the later ones win. */
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
     * Takes what concerns this engine and store from {@code given}; what is for other engines or stores is theirs, but no name
     * may be unknown.
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
        return new Failure("there is no setting '" + name + "'; a name is ENGINE.SETTING or ENGINE.STORE.SETTING,"
                + " and SETTING one of " + String.join(", ", words(setting -> true)));
    }

    private void check(Setting setting, Value value) {
        long number = setting.parse(value.name, value.text);
        Setting.Use use = setting.by(engine);
        if (use.honoured() || value.origin == Origin.DEFAULT) {
            return;
        }
        if (use.always() == null || setting.parse(value.name, use.always()) != number) {
            throw new Failure(value.name + "=" + value.text + " is nothing that " + engine.title + " can do: " + use.how());
        }
    }

    /** A count, or bytes. */
    long number(Setting setting) {
        if (!setting.by(engine).honoured()) {
            throw new IllegalStateException(setting.word + " is not used by " + engine.word);
        }
        Value value = values.get(setting);
        return setting.parse(value.name, value.text);
    }

    /** A count or size for an interface that takes no more. */
    int whole(Setting setting) {
        return Math.toIntExact(number(setting));
    }

    boolean flag(Setting setting) {
        return number(setting) != 0;
    }

    /** What is in force, a word each. */
    List<String> used() {
        return values.entrySet().stream()
                .filter(entry -> entry.getKey().by(engine).honoured())
                .map(entry -> entry.getKey().word + "=" + entry.getValue().text)
                .toList();
    }

    /** The settings that have no meaning for this engine. */
    List<String> unused() {
        return words(setting -> !setting.by(engine).honoured());
    }

    private static List<String> words(Predicate<Setting> which) {
        return Arrays.stream(Setting.values()).filter(which).map(setting -> setting.word).toList();
    }
}
