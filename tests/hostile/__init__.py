"""`make hostile`: attacks on a real server, and what other clients notice of them."""
