package poolwright.kv;

/** The table of settings as Markdown, for docs/campaigns/kv-engines.md. */
final class SettingsPage {
    private SettingsPage() {}

    static String markdown() {
        StringBuilder page = new StringBuilder("| setting | type | default | meaning |");
        for (EngineKind engine : EngineKind.values()) {
            page.append(' ').append(engine.title).append(" |");
        }
        page.append("\n|").append(" --- |".repeat(4 + EngineKind.values().length)).append('\n');
        for (Setting setting : Setting.values()) {
            page.append("| `").append(setting.word).append("` | ").append(setting.kind.title)
                    .append(" | ").append(setting.otherwise)
                    .append(" | ").append(setting.meaning).append(" |");
            for (EngineKind engine : EngineKind.values()) {
                page.append(' ').append(cell(setting.by(engine))).append(" |");
            }
            page.append('\n');
        }
        return page.toString();
    }

    private static String cell(Setting.Use use) {
        if (use.honoured()) {
            return use.how();
        }
        return use.always() == null ? "not used: " + use.how() : "always " + use.always() + ": " + use.how();
    }
}
