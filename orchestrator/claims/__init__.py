"""Claims of papers as data, and whether they hold on other data: statements over cells, tested with a stated error."""
