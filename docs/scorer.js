// Ranks the results of the site's search: guides to one task come first, long reference pages last. Their list is no guide.
var Scorer = {
  score: (result) => {
    const [document, , , , score] = result;
    if (document.startsWith("how-to/") && document !== "how-to/index") return score + 12;
    if (/^(how-to\/index$|api\/|adr\/|options$|glossary$|tools$|benchmarks$)/.test(document)) return score - 4;
    return score;
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

// A result has all words of the query, and few pages repeat the words of this list, which fit all of them. The search
// ignores these words unless the query has no others. Sphinx loads this file after `Search`, before the first search.
const COMMON_WORDS = /^(apache|can|do|does|example|how|i|kafka|my|ottla|python|should|using|what)$/i;
if (typeof Search !== "undefined") {
  const parseQuery = Search._parseQuery;
  Search._parseQuery = (query) => {
    const words = query.trim().split(/\s+/);
    const rare = words.filter((word) => !COMMON_WORDS.test(word));
    return parseQuery(rare.length ? rare.join(" ") : query);
  };
}
