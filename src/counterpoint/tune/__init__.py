"""Search for settings that are really faster: predicted first, then measured, never noise.

    Space ──► Arms ──predict──► shortlist ──run in turns──► estimates ──confirm──► Conclusion
                        every event ──► Journal ──fold──► Study

A Study is what its journal says, and nothing else: whoever reads the journal knows what comes next,
so a tune that was killed goes on where it was.
"""
