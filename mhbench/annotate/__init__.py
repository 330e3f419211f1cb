"""The page where people answer: studies, who answers what, the file of answers, and the records that come out."""
