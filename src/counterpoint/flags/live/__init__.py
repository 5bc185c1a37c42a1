"""What the jaxlib that is here says of itself, and of flags: asked in a process of its own."""
