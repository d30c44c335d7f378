"""What a search would take, before it is started."""
