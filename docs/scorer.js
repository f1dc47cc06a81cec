// Ranks the results of the site's search: guides to one task come first, long reference pages last.
var Scorer = {
  score: (result) => {
    const [document, , , , score] = result;
    if (document.startsWith("how-to/")) return score + 12;
    if (/^(api\/|adr\/|options$|glossary$|tools$|benchmarks$)/.test(document)) return score - 4;
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
