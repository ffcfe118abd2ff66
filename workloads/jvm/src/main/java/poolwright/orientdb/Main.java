package poolwright.orientdb;

import poolwright.driver.Driver;
import poolwright.driver.Failure;
import poolwright.driver.Report;
import poolwright.driver.Spec;

/** The phases of the driver "orientdb". */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) {
        Driver.main(Main::run);
    }

    private static void run(Spec spec, Report report) throws Exception {
        try {
            phase(spec, report);
        } catch (Exception failed) {
            // Otherwise OrientDB would print more after the error message, which must be the last line.
            Database.endQuietly();
            throw failed;
        }
    }

    private static void phase(Spec spec, Report report) throws Exception {
        Settings settings = Settings.of(spec.parameters());
        switch (spec.phase()) {
            case "import" -> new Import(spec, settings, report).run();
            case "load" -> new Load(spec, settings, report).run();
            case "backup" -> new Backup(spec, settings, report).run();
            case "backup_during_import" -> new BackupDuringImport(spec, settings, report).run();
            case "archive" -> new Archive(spec, report).run();
            case "lucene" -> new Lucene(spec, settings, report).create();
            case "search" -> new Lucene(spec, settings, report).search();
            case "search_during_import" -> new Lucene(spec, settings, report).searchDuringImport();
            default -> throw new Failure("unknown phase '" + spec.phase()
                    + "'; expected one of import, load, backup, backup_during_import, archive, lucene, search and search_during_import");
        }
    }
}
