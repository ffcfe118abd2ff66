package poolwright.kv;

import poolwright.driver.Driver;

/**
 * The driver of kv-engines: runs the phase given on stdin, or prints the table of settings for the documentation if the
 * argument is {@code settings}.
 */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) {
        if (arguments.length == 1 && arguments[0].equals("settings")) {
            System.out.print(SettingsPage.markdown());
        } else {
            Driver.main(Phases::run);
        }
    }
}
