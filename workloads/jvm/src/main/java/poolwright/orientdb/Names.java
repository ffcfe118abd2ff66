package poolwright.orientdb;

import java.util.HashSet;
import java.util.Random;
import java.util.Set;

/** Unique names like those of an Italian encyclopedia: words joined by underscores, in the angle brackets of N-Triples. */
final class Names {
    private static final String RESOURCE = "<http://it.dbpedia.org/resource/";
    private static final String[] HEADS = {
        "ba", "be", "bo", "ca", "ce", "chi", "co", "da", "de", "di", "do", "fa", "fe", "fio", "ga", "ge", "gio", "gra", "la", "le",
        "li", "lo", "ma", "me", "mi", "mo", "na", "ne", "no", "pa", "pe", "pi", "po", "pra", "qua", "ra", "re", "ri", "ro", "sa",
        "scu", "se", "si", "so", "sta", "stra", "ta", "te", "ti", "to", "tra", "va", "ve", "vi", "vo", "za"
    };
    private static final String[] TAILS = {"ni", "to", "re", "lla", "ne", "sco", "ta", "zione", "mento", "rio", "nte", "le", "r", "n", "s", "\\u00E0"};
    private static final String[] KINDS = {"film", "album", "comune", "singolo", "romanzo", "calciatore", "programma_televisivo", "asteroide"};
    private static final int VOCABULARY = 30_000;
    private static final int YEARS = 2014;

    // The index of a word is this power of a uniform number: a few words are in every tenth name, most in hardly any.
    private static final double SKEW = 2.5;

    private final Random random;
    private final String[] words = new String[VOCABULARY];
    private final Set<String> taken = new HashSet<>();

    Names(Random random) {
        this.random = random;
        for (int i = 0; i < VOCABULARY; i++) {
            words[i] = word();
        }
    }

    /** Returns the name of a new article. */
    String article() {
        StringBuilder name = new StringBuilder(RESOURCE).append(phrase(1 + draw(3)));
        double kind = random.nextDouble();
        if (kind < 0.10) {
            name.append("_(").append(KINDS[draw(KINDS.length)]).append(')');
        } else if (kind < 0.15) {
            name.append('_').append(1000 + draw(YEARS - 1000));
        }
        return unique(name);
    }

    /** Returns the name of a new category. */
    String category() {
        StringBuilder name = new StringBuilder(RESOURCE).append("Categoria:").append(phrase(1));
        switch (draw(4)) {
            case 0 -> name.append("_nel_").append(1000 + draw(YEARS - 1000));
            case 1 -> name.append("_del_").append(phrase(1));
            default -> name.append('_').append(frequent());
        }
        return unique(name);
    }

    /** Adds a number to an existing name, as for articles with the same title. */
    private String unique(StringBuilder name) {
        String plain = name.toString();
        String candidate = plain + ">";
        for (int n = 2; !taken.add(candidate); n++) {
            candidate = plain + "_(" + n + ")>";
        }
        return candidate;
    }

    private String phrase(int length) {
        StringBuilder phrase = new StringBuilder();
        for (int i = 0; i < length; i++) {
            String word = frequent();
            phrase.append(i == 0 ? "" : "_").append(Character.toUpperCase(word.charAt(0))).append(word, 1, word.length());
        }
        return phrase.toString();
    }

    private String frequent() {
        return words[(int) (VOCABULARY * Math.pow(random.nextDouble(), SKEW))];
    }

    private String word() {
        StringBuilder word = new StringBuilder();
        for (int i = 1 + draw(3); i > 0; i--) {
            word.append(HEADS[draw(HEADS.length)]);
        }
        return word.append(TAILS[draw(TAILS.length)]).toString();
    }

    private int draw(int below) {
        return random.nextInt(below);
    }
}
