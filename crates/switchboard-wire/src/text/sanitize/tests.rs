use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Input and expected output.
const HOSTILE: &[(&str, &str)] = &[
    // Control sequences with both forms of the introducer.
    ("\u{1b}[31mred\u{1b}[0m", "red"),
    ("a\u{1b}[2J\u{1b}[Hb", "ab"),
    ("a\u{1b}[1A\u{1b}[2Kb", "ab"),
    ("\u{1b}[?25lhidden cursor", "hidden cursor"),
    ("\u{1b}[38;2;1;2;3mx", "x"),
    ("\u{1b}[8mconcealed\u{1b}[28m", "concealed"),
    ("\u{1b}[ qx", "x"),
    ("\u{1b}[>4;1mx", "x"),
    ("\u{1b}[6n", ""),
    ("\u{1b}[", ""),
    ("\u{1b}[31", ""),
    ("\u{1b}[3é", "é"),
    ("\u{1b}[\u{1b}[31mx", "x"),
    ("\u{1b}\u{1b}[31mx", "x"),
    ("\u{9b}31mred", "red"),
    ("\u{9b}2Jx", "x"),
    ("\u{9b}", ""),
    ("\u{1b}[3\n1m", "\n1m"),
    // Window titles, links, the clipboard.
    ("\u{1b}]0;title\u{7}x", "x"),
    ("\u{1b}]0;title\u{1b}\\x", "x"),
    ("\u{1b}]0;title\u{9c}x", "x"),
    ("\u{9d}0;title\u{9c}x", "x"),
    ("\u{9d}0;title\u{7}x", "x"),
    (
        "\u{1b}]8;;http://evil.example\u{1b}\\click\u{1b}]8;;\u{1b}\\",
        "click",
    ),
    (
        "\u{1b}]8;id=1;http://evil.example\u{7}click\u{1b}]8;;\u{7}",
        "click",
    ),
    ("\u{1b}]52;c;cm0gLXJmIC8=\u{7}x", "x"),
    ("\u{1b}]52;c;?\u{1b}\\x", "x"),
    ("\u{1b}]1337;File=name=x:AAAA\u{7}x", "x"),
    ("\u{1b}]9;4;1;50\u{7}x", "x"),
    ("\u{1b}]0;never closed", "0;never closed"),
    ("\u{1b}]0;cut off\u{1b}[31mx", "0;cut offx"),
    ("\u{1b}]0;cancelled\u{18}x\u{7}", "0;cancelledx"),
    // Device control, application commands, privacy messages, strings.
    ("\u{1b}Pq#0;2;0;0;0\u{1b}\\x", "x"),
    ("\u{1b}P+q544e\u{9c}x", "x"),
    ("\u{90}payload\u{9c}x", "x"),
    ("\u{1b}_Gf=100;AAAA\u{1b}\\x", "x"),
    ("\u{9f}payload\u{9c}x", "x"),
    ("\u{1b}^private\u{1b}\\x", "x"),
    ("\u{9e}private\u{9c}x", "x"),
    ("\u{1b}Xstring\u{1b}\\x", "x"),
    ("\u{98}string\u{9c}x", "x"),
    ("\u{1b}Pa bell \u{7} does not end it\u{1b}\\x", "x"),
    // Short sequences.
    ("\u{1b}cx", "x"),
    ("\u{1b}7x\u{1b}8", "x"),
    ("\u{1b}(Bx", "x"),
    ("\u{1b}#8x", "x"),
    ("\u{1b}%Gx", "x"),
    ("\u{1b}=x\u{1b}>", "x"),
    ("\u{1b}Mx", "x"),
    ("\u{1b}Ox", "x"),
    ("\u{1b}é", "é"),
    ("\u{1b}", ""),
    // Control characters.
    ("a\u{8}b", "ab"),
    ("a\u{0}b", "ab"),
    ("a\u{7f}b", "ab"),
    ("a\u{7}b", "ab"),
    ("a\u{b}b\u{c}c", "abc"),
    ("a\u{e}b\u{f}", "ab"),
    ("safe\rrm -rf /", "safe\nrm -rf /"),
    ("one\r\ntwo\r\n", "one\ntwo\n"),
    ("one\r\r\ntwo", "one\n\ntwo"),
    ("a\u{84}b\u{8d}c", "abc"),
    ("a\u{85}b", "a\nb"),
    ("a\u{80}\u{9f}b", "ab"),
    // Invisible characters.
    ("pass\u{200b}word", "password"),
    ("pass\u{200c}word", "password"),
    ("pass\u{200d}word", "password"),
    ("pass\u{2060}word", "password"),
    ("pass\u{feff}word", "password"),
    ("\u{feff}bom", "bom"),
    ("pass\u{ad}word", "password"),
    ("pass\u{34f}word", "password"),
    ("a\u{2061}\u{2062}\u{2063}\u{2064}b", "ab"),
    ("a\u{206a}\u{206f}\u{2065}b", "ab"),
    ("a\u{180e}b", "ab"),
    ("a\u{fff9}b\u{fffa}c\u{fffb}", "abc"),
    ("a\u{3164}b\u{ffa0}c", "abc"),
    ("a\u{115f}b\u{1160}c", "abc"),
    ("a\u{1d173}\u{1d17a}b", "ab"),
    ("a\u{17b4}\u{17b5}b", "ab"),
    ("a\u{1bca0}b", "ab"),
    // Direction marks and overrides.
    ("user\u{202e}txt.exe", "usertxt.exe"),
    ("\u{202a}a\u{202b}b\u{202c}c\u{202d}d\u{202e}e", "abcde"),
    ("\u{2066}a\u{2067}b\u{2068}c\u{2069}", "abc"),
    ("plain\u{200e}text\u{200f}here\u{61c}", "plaintexthere"),
    ("שלום\u{200f}\u{200f}\u{200e}", "שלום\u{200f}"),
    ("שלום\u{202e}", "שלום"),
    // Tags and variation selectors that carry a message.
    (
        "hi\u{e0001}\u{e0069}\u{e0067}\u{e006e}\u{e006f}\u{e0072}\u{e0065}",
        "hi",
    ),
    (
        "🏴\u{e0069}\u{e0067}\u{e006e}\u{e006f}\u{e0072}\u{e0065}\u{e007f}",
        "🏴",
    ),
    ("🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}", "🏴"),
    (
        "x\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
        "x",
    ),
    ("😀\u{e0100}\u{e0121}\u{e01ef}", "😀"),
    ("a\u{e0100}", "a"),
    ("葛\u{e0100}\u{e0101}", "葛\u{e0100}"),
    ("a\u{fe0f}b\u{fe0e}c\u{fe00}d\u{fe0d}", "abcd"),
    ("❤\u{fe0f}\u{fe0f}\u{fe0e}", "❤\u{fe0f}"),
    ("1\u{fe0f}2", "12"),
    ("a\u{e01f0}\u{e0fff}b", "ab"),
    // Joiners without a script that needs them, and runs of joiners.
    ("👩\u{200d}", "👩"),
    ("👩\u{200d}a", "👩a"),
    ("👩\u{200d}\u{200d}👧", "👩\u{200d}👧"),
    ("👩\u{200b}\u{200d}👧", "👩\u{200d}👧"),
    ("می\u{200c}\u{200c}خواهم", "می\u{200c}خواهم"),
    ("a\u{200d}\u{200c}\u{200b}\u{2060}b", "ab"),
    // Nested sequences.
    ("\u{1b}\u{200b}[31mx", "[31mx"),
    ("\u{200b}\u{1b}[31m\u{200b}x", "x"),
    ("\u{1b}]0;\u{200b}\u{202e}\u{7}x", "x"),
];

#[test]
fn hostile_characters_are_removed() {
    assert!(HOSTILE.len() >= 60);
    for (input, expected) in HOSTILE {
        assert_eq!(sanitize(input), *expected, "{input:?}");
    }
}

const LEGITIMATE: &[&str] = &[
    "",
    "plain text\n\twith a tab\nand lines",
    "~!@#$%^&*()_+{}|:\"<>?[31m",
    "naïve café — “quoted” … ½ €",
    "e\u{301} and é",
    "Ελληνικά, русский, українська",
    "日本語、中文。한국어",
    "葛\u{e0100}城市",
    "ไทย ລາວ",
    "שלום עולם",
    "מחיר: 20\u{200f}%",
    "אני אוהב C++\u{200e} מאוד",
    "\u{200f}(שלום)",
    "السلام عليكم",
    "\u{61c}123 العربية",
    "می\u{200c}خواهم",
    "نامه\u{200c}ای به کتاب\u{200c}خانه\u{200c}ها",
    "ه\u{200d}.ق.",
    "नमस्ते दुनिया",
    "क्\u{200d}ष",
    "क्\u{200c}ष",
    "श्रीमान्\u{200c} जी",
    "ශ්\u{200d}රී ලංකාව",
    "বাংলা র\u{200d}্য",
    "മലയാളം ന്\u{200d}",
    "தமிழ் తెలుగు ಕನ್ನಡ",
    "မြန်မာ ខ្មែរ བོད་ཡིག",
    "ᠮᠣᠩᠭᠣᠯ\u{180b}",
    "👍🏽 👋🏿",
    "👨\u{200d}👩\u{200d}👧\u{200d}👦",
    "🧑🏽\u{200d}🚀",
    "🏳\u{fe0f}\u{200d}🌈 🏳\u{fe0f}\u{200d}⚧\u{fe0f}",
    "🏴\u{200d}☠\u{fe0f}",
    "❤\u{fe0f}\u{200d}🔥 ❤\u{fe0f}\u{200d}🩹",
    "👩\u{200d}❤\u{fe0f}\u{200d}💋\u{200d}👨",
    "👩🏻\u{200d}🤝\u{200d}👩🏿",
    "👨\u{200d}⚕\u{fe0f} 👩🏾\u{200d}⚖\u{fe0f} 🧑\u{200d}✈\u{fe0f}",
    "🙂\u{200d}↔\u{fe0f} 🏃\u{200d}➡\u{fe0f}",
    "🐈\u{200d}⬛ 🐻\u{200d}❄\u{fe0f}",
    "👁\u{fe0f}\u{200d}🗨\u{fe0f}",
    "1\u{fe0f}\u{20e3} #\u{fe0f}\u{20e3} *\u{fe0f}\u{20e3}",
    "☎\u{fe0e} ☎\u{fe0f} ©\u{fe0f} ™\u{fe0f} ‼\u{fe0f} ℹ\u{fe0f}",
    "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "🏴\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
    "🇩🇪🇯🇵🇺🇦",
    "∩\u{fe00} ≨\u{fe00}",
    "\u{a0}\u{2009}\u{202f}\u{3000}spaces",
    "⠓⠑⠇⠇⠕\u{2800}⠃⠗⠁⠊⠇⠇⠑",
    "┌─┐│█▓▒░└─┘",
    "\u{fffd}\u{fffc}",
];

#[test]
fn legitimate_text_stays_unchanged() {
    assert!(LEGITIMATE.len() >= 30);
    for text in LEGITIMATE {
        let clean = sanitize(text);
        assert_eq!(clean, *text);
        assert!(matches!(clean, Cow::Borrowed(_)), "{text:?} was copied");
    }
}

#[test]
fn single_character_is_found_at_any_offset() {
    for length in [0, 1, 63, 64, 65, 127, 128, 200] {
        let (before, after) = ("x".repeat(length), "y".repeat(150));
        for hidden in ["\u{0}", "\u{1b}[0m", "\u{200b}", "\u{7f}"] {
            let text = format!("{before}{hidden}{after}");
            assert_eq!(sanitize(&text), format!("{before}{after}"));
        }
    }
}

#[test]
fn unfinished_sequences_take_linear_time() {
    for introducer in [
        "\u{1b}]", "\u{9d}", "\u{1b}P", "\u{1b}[", "\u{200f}", "\u{9b}",
    ] {
        assert!(sanitize(&introducer.repeat(200_000)).len() < 8);
    }
    let wide = format!("{}\u{1b}]x", "\u{1b}]\u{7}é".repeat(50_000));
    assert_eq!(sanitize(&wide).len(), 2 * 50_000 + 1);
}

#[test]
fn line_breaks_become_spaces() {
    let cases = [
        ("plain", "plain"),
        ("a\nb\tc\r\nd\re", "a b c d e"),
        ("a\u{2028}b\u{2029}c", "a b c"),
        ("\u{1b}[31mred\u{1b}[0m\n", "red "),
    ];
    for (input, expected) in cases {
        assert_eq!(for_terminal(input), expected);
    }
    assert!(matches!(for_terminal("plain"), Cow::Borrowed(_)));
}

/// Characters that are removed in every context.
fn is_forbidden(letter: char) -> bool {
    letter.is_control() && letter != '\n' && letter != '\t'
        || matches!(letter,
            '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e001f}')
}

/// Invisible characters that are kept in some contexts.
fn is_contextual(letter: char) -> bool {
    matches!(letter,
        '\u{200c}'..='\u{200f}' | '\u{61c}' | '\u{34f}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{e0100}'..='\u{e01ef}')
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "\u{1b}", "[", "]", "\\", "P", "31", "m", "\u{7}", "\u{9b}", "\u{9c}", "\u{9d}", "\r", "\n",
            "\u{18}", "a", " ", "1", "é", "葛", "😀", "👩", "❤", "🏴", "🏽", "ש", "م", "क", "्", "ᄀ", "ᅡ",
            "\u{20e3}", "ᠮ", "∩", "𓀀",
        ]).prop_map(str::to_owned),
        6 => prop::sample::select(vec![
            "\u{200b}", "\u{200c}", "\u{200d}", "\u{200e}", "\u{200f}", "\u{61c}", "\u{202e}",
            "\u{fe00}", "\u{fe0e}", "\u{fe0f}", "\u{e0100}", "\u{34f}", "\u{115f}", "\u{1160}",
            "\u{180b}", "\u{13430}", "\u{e0067}", "\u{e007f}",
            "\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => any::<String>(),
    ];
    vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn sanitising_is_idempotent(text in pieces()) {
        let once = sanitize(&text).into_owned();
        let twice = sanitize(&once);
        prop_assert_eq!(&twice, &once);
        prop_assert!(matches!(twice, Cow::Borrowed(_)));
    }

    #[test]
    fn no_forbidden_character_remains(text in pieces()) {
        let clean = sanitize(&text);
        prop_assert!(!clean.contains(is_forbidden), "{:?}", clean);
        let letters: Vec<char> = clean.chars().collect();
        let run = letters.windows(3).find(|three| three.iter().all(|letter| is_contextual(*letter)));
        prop_assert_eq!(run, None);
        prop_assert!(!letters.windows(2).any(|two| is_contextual(two[0]) && two[0] == two[1]));
        prop_assert!(!for_terminal(&text).contains(['\n', '\t']));
    }

    #[test]
    fn visible_prefix_is_kept(before in "[a-z é葛\n]{0,200}", text in pieces()) {
        let whole = format!("{before}{text}");
        prop_assert!(sanitize(&whole).starts_with(&before));
    }
}
