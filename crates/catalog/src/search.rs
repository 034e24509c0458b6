//! Search: which packages hold the words of a query, the most telling first.
//!
//! Words are those of Unicode's segmentation (UAX 29) in canonical, fully case-folded form, so that
//! `Straße` is found as `STRASSE`, and a letter with its accent whichever way the two are encoded.
//! No language's own rule is applied: the Turkish `İ` is an `i` with a dot above for everybody. Each
//! ideograph is a word. Ids and names hold also what stands between `-` and `_`.
//!
//! ```text
//! idf(word)   = ln(1 + N / df)      N documents, of which df hold the word in any field
//! score       = Σ over the query's distinct words that the document holds of
//!               idf(word) × Σ weights of the fields that hold it
//! weights       id 4, name 3, tags 2, description 1
//! ```
//!
//! A caller's allow-list applies to what was found, before the page is cut out of it; the formula
//! counts all documents, so that the list changes no score and no order. Sums are taken in the order
//! of the words' bytes: the same documents give the same bits in whatever order they come. Nothing
//! here fails.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::num::NonZeroUsize;

use caseless::Caseless as _;
use unicode_normalization::UnicodeNormalization as _;
use unicode_segmentation::UnicodeSegmentation as _;

/// What is searched of a package.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// Its id, unlike that of every other document.
    pub id: &'a str,
    /// Its display name.
    pub name: &'a str,
    /// Its tags.
    pub tags: &'a [String],
    /// Its description.
    pub description: &'a str,
    /// Whether it is of a collection, and so comes after its equals that are not.
    pub in_collection: bool,
}

/// The fields of a document that hold a word, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fields(u8);

impl Fields {
    const ID: Self = Self(1);
    const NAME: Self = Self(2);
    const TAGS: Self = Self(4);
    const DESCRIPTION: Self = Self(8);

    /// How much a word counts in each field.
    const WEIGHTS: [(Self, u8); 4] =
        [(Self::ID, 4), (Self::NAME, 3), (Self::TAGS, 2), (Self::DESCRIPTION, 1)];

    /// How much a word counts that these fields hold.
    fn weight(self) -> u8 {
        Self::WEIGHTS.iter().filter(|(field, _)| self.0 & field.0 != 0).map(|(_, weight)| weight).sum()
    }
}

/// What is asked of a [`SearchIndex`].
#[derive(Clone, Copy)]
pub struct Query<'a> {
    words: &'a str,
    allowed: Option<&'a dyn Fn(&str) -> bool>,
    offset: usize,
    limit: Option<NonZeroUsize>,
}

impl<'a> Query<'a> {
    /// Asks for all documents that hold any word of a text.
    #[must_use]
    pub fn new(words: &'a str) -> Self {
        Self { words, allowed: None, offset: 0, limit: None }
    }

    /// Leaves out the documents whose id is not allowed; they count in the scores of the others.
    #[must_use]
    pub fn allowed(mut self, allowed: &'a dyn Fn(&str) -> bool) -> Self {
        self.allowed = Some(allowed);
        self
    }

    /// Skips the first hits, and gives no more than a number of those that follow.
    #[must_use]
    pub fn page(mut self, offset: usize, limit: Option<NonZeroUsize>) -> Self {
        self.offset = offset;
        self.limit = limit;
        self
    }
}

impl fmt::Debug for Query<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("words", &self.words)
            .field("allowed", &self.allowed.map(|_| "a function"))
            .field("offset", &self.offset)
            .field("limit", &self.limit)
            .finish()
    }
}

/// A document that holds words of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// Its place among the documents that the index was built of, from 0.
    pub document: usize,
    /// Its score, above 0.
    pub score: f64,
}

/// A page of what was found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Hits {
    /// The page's hits, the best first.
    pub hits: Vec<Hit>,
    /// How many there are on all pages.
    pub total: usize,
    /// Where the next page begins, if there is one.
    pub next_offset: Option<usize>,
}

/// An index of words: built once of all documents, asked often.
#[derive(Debug, Clone, Default)]
pub struct SearchIndex {
    /// By document: what breaks a tie.
    ties: Vec<Tie>,
    /// By word: the documents that hold it, in their order.
    postings: HashMap<Box<str>, Vec<(usize, Fields)>>,
}

/// Equals are in this order: what is outside collections first, then by the id's bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Tie {
    in_collection: bool,
    id: Box<str>,
}

impl SearchIndex {
    /// Builds an index; hits name a document by its place in this order.
    #[must_use]
    pub fn new<'a>(documents: impl IntoIterator<Item = Document<'a>>) -> Self {
        let mut index = Self::default();
        for document in documents {
            let number = index.ties.len();
            index.ties.push(Tie { in_collection: document.in_collection, id: document.id.into() });
            for (field, text) in [(Fields::ID, document.id), (Fields::NAME, document.name)] {
                index.add(text, number, field);
                // Where there is nothing to split, the words are the same once more.
                for part in text.split(['-', '_']) {
                    index.add(part, number, field);
                }
            }
            for tag in document.tags {
                index.add(tag, number, Fields::TAGS);
            }
            index.add(document.description, number, Fields::DESCRIPTION);
        }
        index
    }

    /// Notes the words of a field; how often the field holds one does not matter.
    fn add(&mut self, text: &str, document: usize, field: Fields) {
        each_word(text, |word| {
            let Some(posting) = self.postings.get_mut(word) else {
                self.postings.insert(word.into(), vec![(document, field)]);
                return;
            };
            match posting.last_mut() {
                Some((last, fields)) if *last == document => fields.0 |= field.0,
                _ => posting.push((document, field)),
            }
        });
    }

    /// Finds the documents that hold words of a query.
    #[must_use]
    pub fn search(&self, query: &Query<'_>) -> Hits {
        let mut scores: HashMap<usize, f64> = HashMap::new();
        // Distinct, and in one order, whatever the caller's.
        let mut words = BTreeSet::new();
        each_word(query.words, |word| {
            words.insert(word.to_owned());
        });
        for word in words {
            let Some(posting) = self.postings.get(word.as_str()) else { continue };
            let idf = idf(self.ties.len(), posting.len());
            for &(document, fields) in posting {
                *scores.entry(document).or_default() += idf * f64::from(fields.weight());
            }
        }
        let is_allowed =
            |document: usize| query.allowed.is_none_or(|allowed| allowed(&self.ties[document].id));
        let mut hits: Vec<Hit> = scores
            .into_iter()
            .filter(|&(document, _)| is_allowed(document))
            .map(|(document, score)| Hit { document, score })
            .collect();
        hits.sort_unstable_by(|first, second| self.compare(first, second));
        let total = hits.len();
        hits.drain(..query.offset.min(total));
        if let Some(limit) = query.limit {
            hits.truncate(limit.get());
        }
        let end = query.offset.saturating_add(hits.len());
        Hits { hits, total, next_offset: (end < total).then_some(end) }
    }

    fn compare(&self, first: &Hit, second: &Hit) -> Ordering {
        let by_score = second.score.total_cmp(&first.score);
        let by_tie = || self.ties[first.document].cmp(&self.ties[second.document]);
        // Two documents of one id are against the contract, and still come in some fixed order.
        by_score.then_with(by_tie).then(first.document.cmp(&second.document))
    }
}

/// How much a word tells that `holding` of `all` documents hold.
fn idf(all: usize, holding: usize) -> f64 {
    (1.0 + all as f64 / holding as f64).ln()
}

/// Calls `note` with each word of a text, in the form in which they are compared.
fn each_word(text: &str, mut note: impl FnMut(&str)) {
    // No word goes over a space, and most of what stands between two is ASCII, which is cheap.
    for piece in text.split_ascii_whitespace() {
        folded(piece).unicode_words().for_each(&mut note);
    }
}

/// The form in which words are compared.
fn folded(text: &str) -> Cow<'_, str> {
    if !text.is_ascii() {
        return Cow::Owned(text.nfd().default_case_fold().nfc().collect());
    }
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(text.to_ascii_lowercase());
    }
    Cow::Borrowed(text)
}
