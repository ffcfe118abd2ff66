package poolwright.kv;

import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.SplittableRandom;

/**
 * The report's second data set: an application's data on members, six entries of JSON for each, about 1.7 KB in total. One
 * has about 1 KB, one about 600 bytes, four have 30 to 40 bytes; all keys have 30 to 40 characters. Members are scattered
 * over the keys; the six entries of a member are adjacent.
 */
record JsonSet(long seed) implements DataSet {
    static final int ENTRIES = 6;
    private static final String[] NAMES = {
        "profile-page", "latest-actions", "last-seen-at", "login-count", "language-of", "account-state"
    };
    private static final int PROFILE = 1024;
    private static final int ACTIONS = 600;

    private static final String[] WORDS = (
            "the of and a to in is it you that he was for on are with as his they be at one have this from "
                    + "or had by hot but some what there we can out other were all your when up use word how said an "
                    + "each she which do their time if will way about many then them would write like so these her "
                    + "long make thing see him two has look more day could go come did my sound no most number who "
                    + "over know water than call first people may down side been now find any new work part take get "
                    + "place made live where after back little only round man year came show every good me give our "
                    + "under name very through just form much great think say help low line before turn cause same "
                    + "mean differ move right boy old too does tell sentence set three want air well also play small "
                    + "end put home read hand port large spell add even land here must big high such follow act why "
                    + "ask men change went light kind off need house picture try us again animal point mother world "
                    + "near build self earth father head stand own page should country found answer school grow study "
                    + "still learn plant cover food sun")
            .split(" ");
    private static final String[] GIVEN = {
        "Anna", "Bruno", "Carla", "David", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Karin",
        "Luca", "Marie", "Nils", "Olga", "Paul"
    };
    private static final String[] FAMILY = {
        "Almeida", "Bauer", "Conti", "Dubois", "Eriksson", "Fischer", "Garcia", "Horvat", "Ivanova",
        "Jansen", "Keller", "Lindqvist", "Moreau", "Novak"
    };
    private static final String[] CITIES = {
        "Amsterdam", "Bordeaux", "Cologne", "Dublin", "Edinburgh", "Florence", "Geneva", "Hamburg",
        "Innsbruck", "Lisbon", "Munich", "Oslo", "Paris"
    };
    private static final String[] ACTS = {"login", "view", "edit", "comment", "upload", "search", "share", "logout"};
    private static final String[] LANGUAGES = {"de-DE", "en-GB", "en-US", "es-ES", "fr-FR", "it-IT", "nl-NL", "sv-SE"};
    private static final String[] STATES = {"active", "paused", "closed"};
    private static final long YEAR_2010 = 1262304000L;
    private static final int YEAR = 31536000;

    @Override
    public byte[] key(long number) {
        return DataSet.hex("user:", DataSet.mix(DataSet.mix(seed) ^ (number / ENTRIES)), ":" + NAMES[(int) (number % ENTRIES)]);
    }

    @Override
    public byte[] value(long number, long change) {
        SplittableRandom random = DataSet.random(seed, number, change);
        String json = switch ((int) (number % ENTRIES)) {
            case 0 -> profile(random, number / ENTRIES);
            case 1 -> actions(random);
            case 2 -> "{\"last_seen_at\": " + time(random) + ", \"via\": 2}";
            case 3 -> "{\"login_count\": " + random.nextInt(100, 1000) + ", \"failed\": " + random.nextInt(10) + "}";
            case 4 -> "{\"language\": \"" + any(random, LANGUAGES) + "\", \"set\": true}";
            default -> "{\"state\": \"" + any(random, STATES) + "\", \"since\": " + random.nextInt(2005, 2012) + "}";
        };
        return json.getBytes(StandardCharsets.US_ASCII);
    }

    private static String profile(SplittableRandom random, long member) {
        String given = any(random, GIVEN);
        String family = any(random, FAMILY);
        StringBuilder json = new StringBuilder(PROFILE + 64)
                .append("{\"member_id\": ").append(100000 + member)
                .append(", \"given_name\": \"").append(given)
                .append("\", \"family_name\": \"").append(family)
                .append("\", \"email\": \"").append(given.toLowerCase(Locale.ROOT)).append(random.nextInt(1000))
                .append("@example.org\", \"city\": \"").append(any(random, CITIES))
                .append("\", \"joined\": ").append(time(random))
                .append(", \"picture\": \"").append(Long.toHexString(random.nextLong()))
                .append(".jpg\", \"show_email\": ").append(random.nextBoolean())
                .append(", \"about\": \"");
        while (json.length() < PROFILE - 10) {
            json.append(word(random)).append(' ');
        }
        return json.append("\"}").toString();
    }

    private static String actions(SplittableRandom random) {
        StringBuilder json = new StringBuilder(ACTIONS + 64).append("{\"actions\": [");
        while (json.length() < ACTIONS - 60) {
            json.append("{\"act\": \"").append(any(random, ACTS))
                    .append("\", \"page\": ").append(random.nextInt(10000))
                    .append(", \"at\": ").append(time(random)).append("}, ");
        }
        return json.append("{\"act\": \"login\", \"at\": ").append(time(random)).append("}]}").toString();
    }

    private static long time(SplittableRandom random) {
        return YEAR_2010 + random.nextInt(YEAR);
    }

    /** Draws words at the beginning of the list more often, by the square of a uniform fraction. */
    private static String word(SplittableRandom random) {
        double lean = random.nextDouble();
        return WORDS[(int) (lean * lean * WORDS.length)];
    }

    private static String any(SplittableRandom random, String[] among) {
        return among[random.nextInt(among.length)];
    }
}
