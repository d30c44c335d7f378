"""Keep or discard each of a stream of proposals against a champion, with one error rate over the whole stream."""
