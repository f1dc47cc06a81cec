// Ranks the results of the site's search: guides to one task come first, long reference pages last. Their list is no guide.
const GUIDE = /^how-to\/(?!index$)/;
const REFERENCE = /^(how-to\/index$|api\/|adr\/|options$|glossary$|tools$|benchmarks$|legacy$)/;

var Scorer = {
  score: (result) => {
    const [document, , , , score, , kind] = result;
    if (kind === "text") return score;  // ranked below
    if (GUIDE.test(document)) return score + 12;
    return REFERENCE.test(document) ? score - 4 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// Few pages repeat the words of this list, which fit all pages. The search ignores these words unless the query has no others.
const COMMON_WORDS = /^(apache|can|do|does|example|how|i|kafka|kafka-python|my|ottla|python|should|using|what)$/i;

// Sphinx's search returns only pages that have all words of a query, so that a sentence or an error message finds nothing. Here
// a page needs half of the words, each weighted by how rare it is.
const NEEDED = 0.5;

// The share of the title's words that the query has: "delete topic" is the title of one guide, and in those of others.
const titleShare = (title, words) => {
  const stemmer = new Stemmer();
  const inTitle = splitQuery(title.toLowerCase()).filter((word) => !stopwords.has(word));
  return inTitle.filter((word) => words.has(stemmer.stemWord(word))).length / Math.max(inTitle.length, 1);
};

const rankByWords = (matchesOf, words, pageCount) => {
  const pages = new Map();
  let total = 0;
  for (const word of words) {
    const matches = matchesOf(word);
    if (!matches.length) continue;  // no page has it
    const weight = Math.log(1 + pageCount / (matches.length + 1));
    total += weight;
    for (const match of matches) {
      const page = pages.get(match[0]) ?? { match, covered: 0, score: 0 };
      page.covered += weight;
      page.score += weight * match[4];
      pages.set(match[0], page);
    }
  }
  return [...pages.values()]
    .filter((page) => page.covered >= NEEDED * total)
    .map(({ match, covered, score }) => {
      const place = GUIDE.test(match[0]) ? 2 : REFERENCE.test(match[0]) ? 0.5 : 1;
      match[4] = (place * (1 + titleShare(match[1], words)) * score * covered) / total ** 2;
      return match;
    });
};

// Sphinx loads this file after `Search`, before the first search.
if (typeof Search !== "undefined") {
  const parseQuery = Search._parseQuery;
  Search._parseQuery = (query) => {
    const words = query.trim().split(/\s+/);
    const rare = words.filter((word) => !COMMON_WORDS.test(word));
    return parseQuery(rare.length ? rare.join(" ") : query);
  };
  const pagesWithAll = Search.performTermsSearch;
  Search.performTermsSearch = (words, excluded) =>
    rankByWords((word) => pagesWithAll(new Set([word]), excluded), words, Search._index.docnames.length);
}
