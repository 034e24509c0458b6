//! Search: the formula, the order, and what a word is.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use proptest::prelude::*;
use skillfreeze_catalog::{Document, Hits, Query, SearchIndex};

/// A document with an id and a description alone.
fn described<'a>(id: &'a str, description: &'a str) -> Document<'a> {
    Document { id, name: "", tags: &[], description, in_collection: false }
}

/// The ids of hits, in their order.
fn ids<'a>(documents: &[Document<'a>], hits: &Hits) -> Vec<&'a str> {
    hits.hits.iter().map(|hit| documents[hit.document].id).collect()
}

fn search<'a>(documents: &[Document<'a>], words: &str) -> Vec<&'a str> {
    ids(documents, &SearchIndex::new(documents.iter().copied()).search(&Query::new(words)))
}

#[test]
fn scores_are_the_formula() {
    let tags = ["pdf".to_owned(), "PDF tools".to_owned()];
    let documents = [
        Document { tags: &tags, name: "PDF reader", ..described("pdf-reader", "Reads a pdf, any PDF.") },
        described("tables", "Takes tables out of a PDF"),
        described("letters", "Writes letters"),
        described("numbers", "Writes numbers"),
    ];
    let ln = |ratio: f64| (1.0 + ratio).ln();
    for (words, expected) in [
        // In all four fields, in tags and description twice, which counts once.
        ("pdf", vec![("pdf-reader", 10.0 * ln(4.0 / 2.0)), ("tables", ln(4.0 / 2.0))]),
        ("reader", vec![("pdf-reader", 7.0 * ln(4.0))]),
        ("tools", vec![("pdf-reader", 2.0 * ln(4.0))]),
        ("tables", vec![("tables", 5.0 * ln(4.0))]),
        ("writes numbers", vec![("numbers", ln(4.0 / 2.0) + 5.0 * ln(4.0)), ("letters", ln(4.0 / 2.0))]),
        // A word that is asked for twice is one word.
        ("Reader, READER!", vec![("pdf-reader", 7.0 * ln(4.0))]),
        ("reader absent", vec![("pdf-reader", 7.0 * ln(4.0))]),
        ("absent", vec![]),
        ("", vec![]),
        (" -- ", vec![]),
    ] {
        let hits = SearchIndex::new(documents).search(&Query::new(words));
        assert_eq!(ids(&documents, &hits), expected.iter().map(|(id, _)| *id).collect::<Vec<_>>(), "{words}");
        for (hit, (_, score)) in hits.hits.iter().zip(expected) {
            assert!((hit.score - score).abs() < 1e-12, "{words}: {} is not {score}", hit.score);
        }
    }
}

#[test]
fn equals_stand_outside_collections_first_and_then_by_id() {
    let collected = |id| Document { in_collection: true, ..described(id, "same") };
    let documents = [
        collected("a"),
        described("c-1", "same"),
        collected("b"),
        described("c_1", "same"),
        described("B", "same"),
    ];
    assert_eq!(search(&documents, "same"), ["B", "c-1", "c_1", "a", "b"]);
    // A better score comes first wherever it is from.
    assert_eq!(search(&documents, "same a"), ["a", "B", "c-1", "c_1", "b"]);
}

#[test]
fn words_are_unicode_s_and_case_does_not_count() {
    for (text, words, found) in [
        ("In der Straße", "STRASSE", true),
        ("STRASSE", "straße", true),
        ("Ελλάς", "ΕΛΛΆΣ", true),
        ("ΕΛΛΆΣ", "ελλάσ", true),
        // One locale for all: a dotted capital is an i with a dot.
        ("Istanbul", "ISTANBUL", true),
        ("İstanbul", "istanbul", false),
        ("İstanbul", "i\u{307}stanbul", true),
        ("ısı", "ISI", false),
        // The same letter, composed and not.
        ("caf\u{e9}", "CAFE\u{301}", true),
        ("cafe\u{301}", "caf\u{c9}", true),
        ("café", "cafe", false),
        ("a\u{323}\u{307}", "a\u{307}\u{323}", true),
        // Each ideograph is a word, a run of katakana is one.
        ("数据分析", "数据", true),
        ("数据分析", "析", true),
        ("数据分析", "学", false),
        ("データ処理", "データ", true),
        ("データ処理", "デー", false),
        ("한국어 문서", "한국어", true),
        ("résumé/vitæ", "vitæ", true),
        ("can't", "CAN'T", true),
        ("version 3.14", "3.14", true),
        ("snake_case", "snake", false),
        ("snake_case", "snake_case", true),
        ("dash-case", "dash", true),
        ("🚀", "🚀", false),
        ("words", "word", false),
    ] {
        let documents = [described("x", text)];
        assert_eq!(search(&documents, words).len(), usize::from(found), "`{words}` in `{text}`");
        let tags = [text.to_owned()];
        let documents = [Document { tags: &tags, ..described("x", "") }];
        assert_eq!(search(&documents, words).len(), usize::from(found), "`{words}` in the tag `{text}`");
    }
}

#[test]
fn ids_and_names_hold_their_parts_too() {
    for words in ["snake", "case", "snake_case", "3d", "snake-3d"] {
        assert_eq!(search(&[described("snake_case-3d", "")], words), ["snake_case-3d"], "{words}");
        let named = [Document { name: "Snake_Case-3D", ..described("x", "") }];
        assert_eq!(search(&named, words), ["x"], "{words}");
    }
    assert_eq!(search(&[described("snake_case", "")], "ase"), [""; 0]);
}

#[test]
fn the_allow_list_comes_before_the_page_and_changes_no_score() {
    let names: Vec<String> = (0..10).map(|number| format!("s{number}")).collect();
    let documents: Vec<_> = names.iter().map(|name| described(name, "same")).collect();
    let index = SearchIndex::new(documents.iter().copied());
    let all = index.search(&Query::new("same"));
    assert_eq!((all.total, all.next_offset), (10, None));

    let odd = |id: &str| id.ends_with(['1', '3', '5', '7', '9']);
    let two = NonZeroUsize::new(2);
    for (offset, limit, expected, next_offset) in [
        (0, None, &["s1", "s3", "s5", "s7", "s9"][..], None),
        (0, two, &["s1", "s3"], Some(2)),
        (2, two, &["s5", "s7"], Some(4)),
        (4, two, &["s9"], None),
        (3, two, &["s7", "s9"], None),
        (5, two, &[], None),
        (usize::MAX, two, &[], None),
    ] {
        let hits = index.search(&Query::new("same").allowed(&odd).page(offset, limit));
        assert_eq!(ids(&documents, &hits), expected, "{offset}");
        assert_eq!((hits.total, hits.next_offset), (5, next_offset), "{offset}");
        assert!(hits.hits.iter().all(|hit| hit.score == all.hits[0].score));
    }
    let none = index.search(&Query::new("same").allowed(&|_| false).page(0, two));
    assert_eq!((none.hits.len(), none.total, none.next_offset), (0, 0, None));
}

#[test]
fn an_index_of_nothing_finds_nothing() {
    let hits = SearchIndex::new([]).search(&Query::new("x"));
    assert_eq!((hits.hits.len(), hits.total, hits.next_offset), (0, 0, None));
}

/// A document of a property's own.
#[derive(Debug, Clone)]
struct Made {
    id: String,
    name: String,
    tags: Vec<String>,
    description: String,
    in_collection: bool,
}

impl Made {
    fn document(&self) -> Document<'_> {
        let Self { id, name, tags, description, in_collection } = self;
        Document { id, name, tags, description, in_collection: *in_collection }
    }

    /// The weights of the fields that hold a word.
    fn weights(&self, word: &str) -> Vec<f64> {
        let holds = |text: &str| text.split([' ', '-']).any(|part| part == word);
        let fields =
            [(4.0, &self.id), (3.0, &self.name), (2.0, &self.tags.join(" ")), (1.0, &self.description)];
        fields.into_iter().filter(|(_, text)| holds(text)).map(|(weight, _)| weight).collect()
    }

    /// The score by the letter of the formula.
    fn score(&self, all: &[Self], words: &BTreeSet<String>) -> f64 {
        let of_word = |word: &String| {
            let holding = all.iter().filter(|made| !made.weights(word).is_empty()).count();
            let idf = (1.0 + all.len() as f64 / holding as f64).ln();
            self.weights(word).into_iter().map(|weight| weight * idf).sum::<f64>()
        };
        words.iter().map(of_word).sum()
    }
}

/// Documents of few words, so that they share many; a number makes the ids differ.
fn documents() -> impl Strategy<Value = Vec<Made>> {
    let text = "[abcé]( [abcé]){0,5}";
    let made = ("[abc](-[abc]){0,2}", text, prop::collection::vec(text, 0..3), text, any::<bool>());
    prop::collection::vec(made, 0..12).prop_map(|made| {
        let numbered = made.into_iter().enumerate();
        numbered
            .map(|(number, (id, name, tags, description, in_collection))| Made {
                id: format!("{id}-{number}"),
                name,
                tags,
                description,
                in_collection,
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn the_order_of_documents_and_words_changes_nothing(
        (first, second) in documents().prop_flat_map(|made| (Just(made.clone()), Just(made).prop_shuffle())),
        words in prop::collection::vec("[abcéd]", 0..5),
    ) {
        let answer = |documents: &[Made], words: &[String]| {
            let hits = SearchIndex::new(documents.iter().map(Made::document)).search(&Query::new(&words.join(" ")));
            // To the bit: a sum in another order would give another one.
            let hits = hits.hits.iter().map(|hit| (documents[hit.document].id.clone(), hit.score.to_bits()));
            hits.collect::<Vec<_>>()
        };
        let turned: Vec<String> = words.iter().rev().cloned().collect();
        prop_assert_eq!(answer(&first, &words), answer(&second, &turned));
    }

    #[test]
    fn the_answer_is_that_of_the_formula_s_letter(
        made in documents(),
        words in prop::collection::btree_set("[abcéd]", 0..4),
    ) {
        let asked = Vec::from_iter(words.clone()).join(" ");
        let hits = SearchIndex::new(made.iter().map(Made::document)).search(&Query::new(&asked));
        let scores = made.iter().map(|one| one.score(&made, &words));
        let mut found = vec![0.0; made.len()];
        for hit in &hits.hits {
            found[hit.document] = hit.score;
        }
        prop_assert_eq!(hits.total, hits.hits.len());
        for (found, expected) in found.into_iter().zip(scores) {
            prop_assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
        }
    }
}
