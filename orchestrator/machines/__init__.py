"""Which machines there are, and what a trial gets of them."""
