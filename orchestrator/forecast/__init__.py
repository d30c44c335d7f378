"""How long a search would take, calculated before the search is started."""
