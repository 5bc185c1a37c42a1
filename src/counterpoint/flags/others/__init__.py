"""What others have published: pages and recipes, and what a release makes of them."""
