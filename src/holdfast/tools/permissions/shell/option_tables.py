"""The options of programs that can run others, as their own help prints them.

A table is the short options, such as `abc:d?`, and the long ones, such as `name`, `name=` or `name=?`. A colon or an
equals sign stands for a value, a question mark for one that may be attached, and an exclamation mark for an option that
runs a program. A dash stands for no short options, and a bar between two tables for both.
"""

from collections.abc import Mapping
from typing import Final

PROGRAM_OPTIONS: Final[Mapping[str, str]] = {
    "cpio": (
        "0ABLSVabcdfilmnoprstuvC:D:E:F:H:I:M:O:R:W: absolute-filenames append block-size= create dereference "
        "device-independent directory= dot extract file= force-local format= ignore-devno io-size= link list "
        "make-directories message= no-absolute-filenames no-preserve-owner nonmatching null numeric-uid-gid "
        "only-verify-crc owner= pass-through pattern-file= preserve-modification-time quiet rename "
        "renumber-inodes reproducible reset-access-time rmt-command=! rsh-command=! sparse swap swap-bytes "
        "swap-halfwords to-stdout unconditional usage verbose warning="
    ),
    "curl": (
        "#012346BGIJLMNORSVZafgijklnpqsvA:C:D:E:F:H:K:!P:Q:T:U:X:Y:b:c:d:e:hm:o:r:t:u:w:x:y:z: "
        "abstract-unix-socket= alt-svc= anyauth append aws-sigv4= basic cacert= capath= cert= cert-status "
        "cert-type= ciphers= compressed compressed-ssh config=! connect-timeout= connect-to= continue-at= cookie= "
        "cookie-jar= create-dirs create-file-mode= crlf crlfile= curves= data= data-ascii= data-binary= data-raw= "
        "data-urlencode= delegation= digest disable disable-eprt disable-epsv disallow-username-in-url "
        "dns-interface= dns-ipv4-addr= dns-ipv6-addr= dns-servers= doh-cert-status doh-insecure doh-url= "
        "dump-header= egd-file= engine= etag-compare= etag-save= expect100-timeout= fail fail-early "
        "fail-with-body false-start form= form-escape form-string= ftp-account= ftp-alternative-to-user= "
        "ftp-create-dirs ftp-method= ftp-pasv ftp-port= ftp-pret ftp-skip-pasv-ip ftp-ssl-ccc ftp-ssl-ccc-mode= "
        "ftp-ssl-control get globoff happy-eyeballs-timeout-ms= haproxy-protocol head header= hostpubmd5= "
        "hostpubsha256= hsts= http0.9 http1.0 http1.1 http2 http2-prior-knowledge http3 http3-only "
        "ignore-content-length include insecure interface= ipv4 ipv6 json= junk-session-cookies keepalive-time= "
        "key= key-type= krb= libcurl= limit-rate= list-only local-port= location location-trusted login-options= "
        "mail-auth= mail-from= mail-rcpt= mail-rcpt-allowfails manual max-filesize= max-redirs= max-time= "
        "metalink negotiate netrc netrc-file= netrc-optional next no-alpn no-buffer no-clobber no-keepalive "
        "no-npn no-progress-meter no-sessionid noproxy= ntlm ntlm-wb oauth2-bearer= output= output-dir= parallel "
        "parallel-immediate parallel-max= pass= path-as-is pinnedpubkey= post301 post302 post303 preproxy= "
        "progress-bar proto= proto-default= proto-redir= proxy= proxy-anyauth proxy-basic proxy-cacert= "
        "proxy-capath= proxy-cert= proxy-cert-type= proxy-ciphers= proxy-crlfile= proxy-digest proxy-header= "
        "proxy-insecure proxy-key= proxy-key-type= proxy-negotiate proxy-ntlm proxy-pass= proxy-pinnedpubkey= "
        "proxy-service-name= proxy-ssl-allow-beast proxy-ssl-auto-client-cert proxy-tls13-ciphers= "
        "proxy-tlsauthtype= proxy-tlspassword= proxy-tlsuser= proxy-tlsv1 proxy-user= proxy1.0= proxytunnel "
        "pubkey= quote= random-file= range= rate= raw referer= remote-header-name remote-name remote-name-all "
        "remote-time remove-on-error request= request-target= resolve= retry= retry-all-errors retry-connrefused "
        "retry-delay= retry-max-time= sasl-authzid= sasl-ir service-name= show-error silent socks4= socks4a= "
        "socks5= socks5-basic socks5-gssapi socks5-gssapi-nec socks5-gssapi-service= socks5-hostname= "
        "speed-limit= speed-time= ssl ssl-allow-beast ssl-auto-client-cert ssl-no-revoke ssl-reqd "
        "ssl-revoke-best-effort sslv2 sslv3 stderr= styled-output suppress-connect-headers tcp-fastopen "
        "tcp-nodelay telnet-option= tftp-blksize= tftp-no-options time-cond= tls-max= tls13-ciphers= tlsauthtype= "
        "tlspassword= tlsuser= tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 tr-encoding trace= trace-ascii= trace-time "
        "unix-socket= upload-file= url= url-query= use-ascii user= user-agent= verbose write-out= xattr"
    ),
    "diff3": (
        "3AETXaeimvxL: diff-program=! easy-only ed initial-tab label= merge overlap-only show-all show-overlap "
        "strip-trailing-cr text"
    ),
    "fd": (
        "01FHILVaghilpqsuE:S:X:!c:d:e:j:o:t:x:! absolute-path and= base-directory= batch-size= case-sensitive "
        "change-newer-than= change-older-than= changed-after= changed-before= changed-within= color= exact-depth= "
        "exclude= exec=! exec-batch=! extension= fixed-strings follow full-path glob hidden ignore-case "
        "ignore-file= list-details max-depth= max-results= min-depth= newer= no-ignore no-ignore-parent "
        "no-ignore-vcs older= one-file-system owner= path-separator= print0 prune quiet regex search-path= "
        "show-errors size= strip-cwd-prefix threads= type= unrestricted"
    ),
    "install": (
        "CDTZbcdpsvS:g:m:o:t: backup=? compare context=? directory group= mode= no-target-directory owner= "
        "preserve-context preserve-timestamps strip strip-program=! suffix= target-directory= verbose"
    ),
    "patch": (
        "ENRTZbce!flnstuvB:D:F:V:Y:d:g:!i:o:p:r:z: backup backup-if-mismatch basename-prefix= batch binary "
        "context directory= dry-run ed! force forward fuzz= get=! ifdef= ignore-whitespace input= merge=? "
        "no-backup-if-mismatch normal output= posix prefix= quiet quoting-style= read-only= reject-file= "
        "reject-format= remove-empty-files reverse set-time set-utc silent strip= suffix= unified verbose "
        "version-control="
    ),
    "rg": (
        "0FHILNPSUVabchilnopqsuvwxzA:B:C:E:M:T:e:f:g:j:m:r:t: after-context= auto-hybrid-regex before-context= "
        "binary block-buffered byte-offset case-sensitive color= colors= column context= context-separator= count "
        "count-matches crlf debug dfa-size-limit= encoding= engine= field-context-separator= "
        "field-match-separator= file= files files-with-matches files-without-match fixed-strings follow glob= "
        "glob-case-insensitive heading hidden iglob= ignore-case ignore-file= ignore-file-case-insensitive "
        "include-zero invert-match json line-buffered line-number line-regexp max-columns= max-columns-preview "
        "max-count= max-depth= max-filesize= mmap multiline multiline-dotall no-config no-filename no-heading "
        "no-ignore no-ignore-dot no-ignore-exclude no-ignore-files no-ignore-global no-ignore-messages "
        "no-ignore-parent no-ignore-vcs no-line-number no-messages no-mmap no-pcre2-unicode no-require-git "
        "no-unicode null null-data one-file-system only-matching passthru path-separator= pcre2 pcre2-version "
        "pre=! pre-glob= pretty quiet regex-size-limit= regexp= replace= search-zip smart-case sort= sortr= stats "
        "text threads= trim type= type-add= type-clear= type-list type-not= unrestricted vimgrep with-filename "
        "word-regexp"
    ),
    "rsync": (
        "0468ACDEFHIJKLNOPRSUVWXabcdghiklmnopqrstuvxyz@:B:M:T:e:!f: 8-bit-output acls address= append "
        "append-verify archive atimes backup backup-dir= block-size= blocking-io bwlimit= checksum "
        "checksum-choice= checksum-seed= chmod= chown= compare-dest= compress compress-choice= compress-level= "
        "compress-threads= confine-root= contimeout= copy-as= copy-dest= copy-devices copy-dirlinks copy-links "
        "copy-unsafe-links crtimes cvs-exclude debug= del delay-updates delete delete-after delete-before "
        "delete-delay delete-during delete-excluded delete-missing-args devices dirs drop-D dry-run early-input= "
        "exclude= exclude-from= executability existing fake-super files-from= filter= force from0 fsync fuzzy "
        "group groupmap= hard-links human-readable i-r iconv= ignore-errors ignore-existing ignore-missing-args "
        "ignore-non-existing ignore-times inc-recursive include= include-from= info= inplace insecure-links ipv4 "
        "ipv6 itemize-changes keep-dirlinks link-dest= links list-only log-file= log-file-format= max-alloc= "
        "max-delete= max-size= min-size= mkpath modify-window= munge-links no-group no-links no-owner no-perms "
        "no-times no-W no-i-r no-implied-dirs no-inc-recursive no-motd no-whole-file numeric-ids old-args old-d "
        "old-dirs omit-dir-times omit-link-times one-file-system only-write-batch= open-noatime out-format= "
        "outbuf= owner partial partial-dir= password-file= perms port= preallocate progress protocol= "
        "prune-empty-dirs quiet read-batch= recursive relative remote-option= remove-source-files rsh=! "
        "rsync-path=! safe-links secluded-args size-only skip-compress= sockopts= sparse specials stats stderr= "
        "stop-after= stop-at= suffix= super temp-dir= timeout= times trust-sender update usermap= verbose "
        "whole-file write-batch= write-devices xattrs"
    ),
    "sdiff": (
        "BEHWZabdilstvI:o:!w: diff-program=! expand-tabs ignore-all-space ignore-blank-lines ignore-case "
        "ignore-matching-lines= ignore-space-change ignore-tab-expansion ignore-trailing-space left-column "
        "minimal output=! speed-large-files strip-trailing-cr suppress-common-lines tabsize= text width="
    ),
    "sort": (
        "CMRVcbdfghimnrsuzS:T:k:o:t: batch-size= buffer-size= check=? compress-program=! debug dictionary-order "
        "field-separator= files0-from= general-numeric-sort human-numeric-sort ignore-case ignore-leading-blanks "
        "ignore-nonprinting key= merge month-sort numeric-sort output= parallel= random-sort random-source= "
        "reverse sort= stable temporary-directory= unique version-sort zero-terminated"
    ),
    "split": (
        "0123456789deuxC:a:b:l:n:t: additional-suffix= bytes= elide-empty-files filter=! hex-suffixes=? "
        "line-bytes= lines= number= numeric-suffixes=? separator= suffix-length= unbuffered verbose"
    ),
    "tar": (
        "ABGJMOPRSUWZacdhijklmnoprstuvwxzC:F:!H:I:!K:L:N:T:!V:X:b:f:g: absolute-names acls add-file= after-date= "
        "anchored append atime-preserve=? auto-compress backup=? block-number blocking-factor= bzip2 catenate "
        "check-device check-links checkpoint=? checkpoint-action=! clamp-mtime compare compress concatenate "
        "confirmation create delay-directory-restore delete dereference diff directory= exclude= exclude-backups "
        "exclude-caches exclude-caches-all exclude-caches-under exclude-from= exclude-ignore= "
        "exclude-ignore-recursive= exclude-tag= exclude-tag-all= exclude-tag-under= exclude-vcs "
        "exclude-vcs-ignores extract file= files-from=! force-local format= full-time get group= group-map= "
        "gunzip gzip hard-dereference hole-detection= ignore-case ignore-command-error ignore-failed-read "
        "ignore-zeros incremental index-file= info-script=! interactive keep-directory-symlink keep-newer-files "
        "keep-old-files label= level= list listed-incremental= lzip lzma lzop mode= mtime= multi-volume "
        "new-volume-script=! newer= newer-mtime= no-acls no-anchored no-auto-compress no-check-device "
        "no-delay-directory-restore no-ignore-case no-ignore-command-error no-null no-overwrite-dir "
        "no-quote-chars= no-recursion no-same-owner no-same-permissions no-seek no-selinux no-unquote "
        "no-verbatim-files-from no-wildcards no-wildcards-match-slash no-xattrs null numeric-owner occurrence=? "
        "old-archive one-file-system one-top-level=? overwrite overwrite-dir owner= owner-map= pax-option= "
        "portability posix preserve-order preserve-permissions quote-chars= quoting-style= read-full-records "
        "record-size= recursion recursive-unlink remove-files restrict rmt-command=! rsh-command=! same-order "
        "same-owner same-permissions seek selinux show-defaults show-omitted-dirs show-snapshot-field-ranges "
        "show-stored-names show-transformed-names skip-old-files sort= sparse sparse-version= starting-file= "
        "strip-components= suffix= tape-length= test-label to-command=! to-stdout totals=? touch transform= "
        "uncompress ungzip unlink-first unquote update usage use-compress-program=! utc verbatim-files-from "
        "verbose verify volno-file= warning= wildcards wildcards-match-slash xattrs xattrs-exclude= "
        "xattrs-include= xform= xz zstd"
    ),
    "wget": (
        "46EFHKLNSVbcdhkmpqrvxA:B:D:I:O:P:Q:R:T:U:X:a:e:!i:l:o:t:w:n? accept= accept-regex= adjust-extension "
        "append-output= ask-password auth-no-challenge background backup-converted backups= base= bind-address= "
        "body-data= body-file= ca-certificate= ca-directory= certificate= certificate-type= ciphers= compression= "
        "config=! connect-timeout= content-disposition content-on-error continue convert-file-only convert-links "
        "crl-file= cut-dirs= debug default-page= delete-after directory-prefix= dns-timeout= domains= "
        "exclude-directories= exclude-domains= execute=! follow-ftp follow-tags= force-directories force-html "
        "ftp-password= ftp-user= ftps-clear-data-connection ftps-fallback-to-ftp ftps-implicit ftps-resume-ssl "
        "header= hsts-file= http-password= http-user= https-only ignore-case ignore-length ignore-tags= "
        "include-directories= inet4-only inet6-only input-file= keep-session-cookies level= limit-rate= "
        "load-cookies= local-encoding= max-redirect= method= mirror no-cache no-check-certificate no-clobber "
        "no-config no-cookies no-directories no-dns-cache no-glob no-host-directories no-hsts no-http-keep-alive "
        "no-if-modified-since no-iri no-netrc no-parent no-passive-ftp no-proxy no-remove-listing "
        "no-use-server-timestamps no-verbose no-warc-compression no-warc-digests no-warc-keep-log "
        "output-document= output-file= page-requisites password= pinnedpubkey= post-data= post-file= "
        "prefer-family= preserve-permissions private-key= private-key-type= progress= protocol-directories "
        "proxy-password= proxy-user= quiet quota= random-wait read-timeout= recursive referer= regex-type= "
        "reject= reject-regex= rejected-log= relative remote-encoding= report-speed= restrict-file-names= "
        "retr-symlinks retry-connrefused retry-on-http-error= save-cookies= save-headers secure-protocol= "
        "server-response show-progress span-hosts spider start-pos= strict-comments timeout= timestamping tries= "
        "trust-server-names unlink use-askpass=! user= user-agent= verbose wait= waitretry= warc-cdx warc-dedup= "
        "warc-file= warc-header= warc-max-size= warc-tempdir= xattr"
    ),
    "zip": "0123456789Xjqruvy junk-paths no-extra quiet recurse-paths symlinks unzip-command=! update verbose",
}

_DIFF: Final = (
    "0123456789DRWabpsuwzG:I:O:S:l:B?C?M?U?X? abbrev=? anchored= binary break-rewrites=? check color=? "
    "color-moved=? color-moved-ws= color-words=? compact-summary cumulative diff-algorithm= diff-filter= "
    "dirstat=? dirstat-by-file=? dst-prefix= exit-code ext-diff find-copies=? find-copies-harder find-object= "
    "find-renames=? follow full-index function-context histogram ignore-all-space ignore-blank-lines "
    "ignore-cr-at-eol ignore-matching-lines= ignore-space-at-eol ignore-space-change ignore-submodules=? "
    "indent-heuristic inter-hunk-context= irreversible-delete ita-invisible-in-index ita-visible-in-index "
    "line-prefix= minimal name-only name-status notes=? numstat output= output-indicator-context= "
    "output-indicator-new= output-indicator-old= patch patch-with-raw patch-with-stat patience pickaxe-all "
    "pickaxe-regex quiet raw relative=? rename-empty rotate-to= shortstat skip-to= src-prefix= stat=? "
    "stat-count= stat-graph-width= stat-name-width= stat-width= submodule=? summary text textconv unified=? "
    "word-diff=? word-diff-regex= ws-error-highlight="
)
_REVISIONS: Final = (
    "0123456789EFPcghimqrtn: abbrev-commit after= all all-match ancestry-path=? author= author-date-order "
    "basic-regexp before= bisect boundary branches=? cc cherry cherry-mark cherry-pick children "
    "combined-all-paths committer= count date= date-order dd default= dense disk-usage=? do-walk encoding= "
    "exclude= exclude-first-parent-only exclude-hidden= expand-tabs=? extended-regexp first-parent "
    "fixed-strings format= full-diff full-history glob= graph grep= grep-reflog= header ignore-missing "
    "in-commit-order invert-grep left-only left-right log-size max-count= max-parents= merge merges "
    "min-parents= notes=? not objects objects-edge oneline parents perl-regexp pretty=? reflog "
    "regexp-ignore-case relative-date remerge-diff remotes=? remove-empty reverse right-only root "
    "show-linear-break=? show-notes=? show-notes-by-default show-pulls show-signature simplify-by-decoration "
    "simplify-merges since= since-as-filter= single-worktree skip= sparse standard-notes stdin tags=? "
    "timestamp topo-order unpacked until= walk-reflogs diff-merges= no-walk=? max-age= min-age="
)
_LOG: Final = (
    "qL: base cached clear-decorations decorate=? decorate-refs= decorate-refs-exclude= mailmap merge-base no-index "
    f"ours quiet source staged theirs use-mailmap | {_DIFF} | {_REVISIONS}"
)
GIT_OPTIONS: Final[Mapping[str, str]] = {
    "add": (
        "ANe!finpuv all chmod= dry-run edit! force ignore-errors ignore-missing ignore-removal intent-to-add "
        "interactive patch pathspec-file-nul pathspec-from-file= refresh renormalize sparse update verbose "
        "warn-embedded-repo"
    ),
    "am": (
        "3cikmqrsuC:p:S? 3way abort allow-empty binary committer-date-is-author-date continue directory= empty= "
        "exclude= gpg-sign=? ignore-date ignore-space-change ignore-whitespace include= interactive keep keep-cr "
        "keep-non-patch message-id patch-format= quiet quit quoted-cr= rebasing reject rerere-autoupdate resolved "
        "resolvemsg scissors show-current-patch=? signoff skip utf8 whitespace="
    ),
    "apply": (
        "3NRqvzC:p: 3way add allow-binary-replacement allow-empty allow-overlap apply binary build-fake-ancestor= "
        "cached check directory= exclude= ignore-space-change ignore-whitespace inaccurate-eof include= index "
        "intent-to-add numstat quiet recount reject reverse stat summary unidiff-zero unsafe-paths verbose "
        "whitespace="
    ),
    "archive": (
        "lvo: add-file= add-virtual-file= exec=! format= list output= prefix= remote= verbose worktree-attributes"
    ),
    "bisect": "-",
    "bisect bad": "- term-bad term-good term-new term-old",
    "bisect good": "- term-bad term-good term-new term-old",
    "bisect log": "- term-bad term-good term-new term-old",
    "bisect new": "- term-bad term-good term-new term-old",
    "bisect old": "- term-bad term-good term-new term-old",
    "bisect replay": "- term-bad term-good term-new term-old",
    "bisect reset": "- term-bad term-good term-new term-old",
    "bisect skip": "- term-bad term-good term-new term-old",
    "bisect start": "- first-parent no-checkout term-bad= term-good= term-new= term-old=",
    "bisect terms": "- term-bad term-good term-new term-old",
    "branch": (
        "CDMacdfilmqrvu:t? abbrev=? all color=? column=? contains= copy create-reflog delete edit-description! "
        "force format= ignore-case list merged= move no-contains= no-merged= points-at= quiet recurse-submodules "
        "remotes set-upstream set-upstream-to= show-current sort= track=? unset-upstream verbose with without"
    ),
    "bundle": "-",
    "bundle create": "q all-progress all-progress-implied progress quiet",
    "bundle list-heads": "-",
    "bundle unbundle": "- progress",
    "bundle verify": "q quiet",
    "cat-file": (
        "epstz allow-unknown-type batch=? batch-all-objects batch-check=? batch-command=? buffer filters "
        "follow-symlinks mailmap path textconv unordered use-mailmap"
    ),
    "check-attr": "az all cached stdin",
    "check-ignore": "nqvz index non-matching quiet stdin verbose",
    "checkout": (
        "23dflmpqB:b:t? conflict= detach force guess ignore-other-worktrees ignore-skip-worktree-bits merge "
        "orphan= ours overlay overwrite-ignore patch pathspec-file-nul pathspec-from-file= progress quiet "
        "recurse-submodules=? theirs track=?"
    ),
    "cherry": "v abbrev=? verbose",
    "cherry-pick": (
        "e!nsxX:m:S? abort allow-empty allow-empty-message cleanup= commit continue edit! ff gpg-sign=? "
        "keep-redundant-commits mainline= quit rerere-autoupdate signoff skip strategy=! strategy-option="
    ),
    "clean": "Xdfinqxe: dry-run exclude= force interactive quiet",
    "clone": (
        "46lnqsvb:c:!j:o:u:! also-filter-submodules bare branch= bundle-uri= checkout config=! depth= dissociate "
        "filter= hardlinks ipv4 ipv6 jobs= local mirror naked origin= progress quiet recurse-submodules=? "
        "recursive=? reference= reference-if-able= reject-shallow remote-submodules separate-git-dir= "
        "server-option= shallow-exclude= shallow-since= shallow-submodules shared single-branch sparse tags "
        "template=! upload-pack=! verbose"
    ),
    "commit": (
        "ae!inopqsvzC:F:c:!m:t:S?u? ahead-behind all allow-empty allow-empty-message amend author= branch "
        "cleanup= date= dry-run edit! file= fixup= gpg-sign=? include interactive long message= null only patch "
        "pathspec-file-nul pathspec-from-file= porcelain post-rewrite quiet reedit-message=! reset-author "
        "reuse-message= short signoff squash= status template= trailer= untracked-files=? verbose verify"
    ),
    "commit-tree": "F:m:p:S? gpg-sign=?",
    "count-objects": "Hv human-readable verbose",
    "describe": (
        "- abbrev=? all always broken=? candidates= contains debug dirty=? exact-match exclude= first-parent long "
        "match= tags"
    ),
    "fetch": (
        "46Pafkmnpqtuvj:o: all append atomic auto-gc auto-maintenance deepen= depth= dry-run filter= force ipv4 "
        "ipv6 jobs= keep multiple negotiate-only negotiation-tip= prefetch progress prune prune-tags quiet "
        "recurse-submodules=? recurse-submodules-default= refetch refmap= server-option= set-upstream "
        "shallow-exclude= shallow-since= show-forced-updates stdin submodule-prefix= tags unshallow "
        "update-head-ok update-shallow upload-pack=! verbose write-commit-graph write-fetch-head"
    ),
    "fetch-pack": (
        "kqv all check-self-contained-and-connected cloning deepen-relative depth= diag-url exec=! filter= "
        "from-promisor include-tag keep lock-pack no-dependents no-progress quiet refetch shallow-exclude= "
        "shallow-since= stateless-rpc stdin thin update-shallow upload-pack=! verbose"
    ),
    "for-each-ref": (
        "ps color=? contains= count= format= ignore-case merged= no-contains= no-merged= perl points-at= python "
        "shell sort= tcl"
    ),
    "fsck": (
        "v cache connectivity-only dangling full lost-found name-objects progress reflogs root strict tags "
        "unreachable verbose"
    ),
    "gc": "q aggressive auto cruft force keep-largest-pack prune=? quiet",
    "grep": (
        "EFGHILPWachilnopqrvwzA:B:C:e:f:m:O?! after-context= all-match and basic-regexp before-context= break "
        "cached color=? column context= count exclude-standard ext-grep extended-regexp files-with-matches "
        "files-without-match fixed-strings full-name function-context heading ignore-case index invert-match "
        "line-number max-count= max-depth= name-only not null only-matching open-files-in-pager=?! or perl-regexp "
        "quiet recurse-submodules recursive show-function text textconv threads= untracked word-regexp"
    ),
    "hash-object": "wt: filters literally path= stdin stdin-paths",
    "init": "qb: bare initial-branch= object-format= quiet separate-git-dir= shared=? template=!",
    "ls-files": (
        "cdfikmostuvzX:x: abbrev=? cached debug deduplicate deleted directory empty-directory eol error-unmatch "
        "exclude= exclude-from= exclude-per-directory= exclude-standard format= full-name ignored killed modified "
        "others recurse-submodules resolve-undo sparse stage unmerged with-tree="
    ),
    "ls-remote": "hqto: exec=! exit-code get-url heads quiet refs server-option= sort= symref tags upload-pack=!",
    "ls-tree": "dlrtz abbrev=? format= full-name full-tree long name-only name-status object-only",
    "merge": (
        "e!nqvF:X:m:s:!S? abort allow-unrelated-histories autostash cleanup= commit continue edit! ff ff-only "
        "file= gpg-sign=? into-name= log=? message= overwrite-ignore progress quiet quit rerere-autoupdate "
        "signoff squash stat strategy=! strategy-option= summary verbose verify verify-signatures"
    ),
    "merge-base": "a all fork-point independent is-ancestor octopus",
    "mv": "fknv dry-run force sparse verbose",
    "name-rev": "- all always annotate-stdin exclude= name-only peel-tag refs= stdin tags undefined",
    "notes add": "fC:F:c:!m: allow-empty file= force message= reedit-message=! reuse-message=",
    "notes append": "C:F:c:!m: allow-empty file= message= reedit-message=! reuse-message=",
    "notes copy": "f for-rewrite= force stdin",
    "notes get-ref": "-",
    "notes list": "-",
    "notes merge": "qvs: abort commit quiet strategy= verbose",
    "notes prune": "nv dry-run verbose",
    "notes remove": "- ignore-missing stdin",
    "notes show": "-",
    "prune": "nv dry-run exclude-promisor-objects expire= progress verbose",
    "pull": (
        "46afknpqtvX:o:s:!S?j?r? all allow-unrelated-histories append autostash cleanup= commit deepen= depth= "
        "dry-run edit! ff ff-only force gpg-sign=? ipv4 ipv6 jobs=? keep log=? negotiation-tip= progress prune "
        "quiet rebase=? recurse-submodules=? refmap= server-option= set-upstream shallow-exclude= shallow-since= "
        "show-forced-updates signoff=? squash stat strategy=! strategy-option= summary tags unshallow "
        "update-shallow upload-pack=! verbose verify verify-signatures"
    ),
    "push": (
        "46dfnquvo: all atomic delete dry-run exec=! follow-tags force force-if-includes force-with-lease=? ipv4 "
        "ipv6 mirror porcelain progress prune push-option= quiet receive-pack=! recurse-submodules= repo= "
        "set-upstream signed=? tags thin verbose verify"
    ),
    "rebase": (
        "fi!mnqvC:X:s:!x:!S?r? abort allow-empty-message apply autosquash autostash committer-date-is-author-date "
        "continue edit-todo! empty= exec=! ff force-rebase fork-point gpg-sign=? ignore-date ignore-whitespace "
        "interactive! keep-base keep-empty merge onto= preserve-merges quiet quit reapply-cherry-picks "
        "rebase-merges=? rerere-autoupdate reschedule-failed-exec reset-author-date root show-current-patch "
        "signoff skip stat strategy=! strategy-option= update-refs verbose verify whitespace="
    ),
    "reflog delete": "- dry-run rewrite updateref verbose",
    "reflog exists": "-",
    "reflog expire": "- all dry-run expire= expire-unreachable= rewrite single-worktree stale-fix updateref verbose",
    "remote add": "fm:t: fetch master= mirror=? tags track=",
    "remote get-url": "- all push",
    "remote prune": "n dry-run",
    "remote remove": "-",
    "remote rename": "- progress",
    "remote rm": "-",
    "remote set-branches": "- add",
    "remote set-head": "ad auto delete",
    "remote set-url": "- add delete push",
    "remote show": "n",
    "remote update": "p prune",
    "reset": (
        "Npq hard intent-to-add keep merge mixed patch pathspec-file-nul pathspec-from-file= quiet "
        "recurse-submodules=? refresh soft"
    ),
    "restore": (
        "23SWmpqs: conflict= ignore-skip-worktree-bits ignore-unmerged merge ours overlay patch pathspec-file-nul "
        "pathspec-from-file= progress quiet recurse-submodules=? source= staged theirs worktree"
    ),
    "rev-parse": (
        "q abbrev-ref=? absolute-git-dir after= all before= branches=? default= disambiguate= exclude= flags "
        "git-common-dir git-dir git-path= glob= is-bare-repository is-inside-git-dir is-inside-work-tree "
        "is-shallow-repository local-env-vars no-flags no-revs not path-format= quiet remotes=? resolve-git-dir= "
        "revs-only shared-index-path short=? show-cdup show-object-format=? show-prefix "
        "show-superproject-working-tree show-toplevel since= sq symbolic symbolic-full-name tags=? until= verify"
    ),
    "revert": (
        "e!nsX:m:S? abort cleanup= commit continue edit! gpg-sign=? mainline= quit reference rerere-autoupdate "
        "signoff skip strategy=! strategy-option="
    ),
    "rm": "fnqr cached dry-run force ignore-unmatch pathspec-file-nul pathspec-from-file= quiet sparse",
    "send-pack": (
        "fnqv all atomic dry-run exec=! force force-if-includes force-with-lease=? helper-status mirror progress "
        "push-option= quiet receive-pack=! remote= signed=? stateless-rpc stdin thin verbose"
    ),
    "show-branch": (
        "arg? all color=? current date-order independent list merge-base more=? name reflog=? remotes sha1-name "
        "sparse topics topo-order"
    ),
    "show-ref": "dqs? abbrev=? dereference exclude-existing=? hash=? head heads quiet tags verify",
    "sparse-checkout": "-",
    "sparse-checkout add": "-",
    "sparse-checkout disable": "-",
    "sparse-checkout init": "- cone sparse-index",
    "sparse-checkout list": "-",
    "sparse-checkout reapply": "-",
    "sparse-checkout set": "- cone skip-checks sparse-index stdin",
    "stash": (
        "Sakpqum: all include-untracked keep-index message= patch pathspec-file-nul pathspec-from-file= quiet staged"
    ),
    "stash apply": "q index quiet",
    "stash branch": "-",
    "stash clear": "-",
    "stash create": "-",
    "stash drop": "q quiet",
    "stash list": "-",
    "stash pop": "q index quiet",
    "stash push": (
        "Sakpqum: all include-untracked keep-index message= patch pathspec-file-nul pathspec-from-file= quiet staged"
    ),
    "stash save": "Sakpqum: all include-untracked keep-index message= patch quiet staged",
    "stash store": "qm: message= quiet",
    "status": (
        "bsvzM?u? ahead-behind branch column=? find-renames=? ignore-submodules=? ignored=? long null porcelain=? "
        "renames short show-stash untracked-files=? verbose"
    ),
    "submodule add": "fqb: branch= depth= force name= progress quiet reference=",
    "submodule deinit": "fq all force quiet",
    "submodule init": "q quiet",
    "submodule status": "q cached quiet recursive",
    "submodule summary": "n: cached files for-status summary-limit=",
    "submodule sync": "q quiet recursive",
    "switch": (
        "dfmqC:c:t? conflict= create= detach discard-changes force force-create= guess ignore-other-worktrees "
        "merge orphan= overwrite-ignore progress quiet recurse-submodules=? track=?"
    ),
    "symbolic-ref": "dqm: delete quiet recurse short",
    "tag": (
        "ade!filsvF:m:u:n? annotate cleanup= color=? column=? contains= create-reflog delete edit! file= force "
        "format= ignore-case list local-user= merged= message= no-contains= no-merged= points-at= sign sort= "
        "verify with= without="
    ),
    "update-index": (
        "gqz add again assume-unchanged cacheinfo= chmod= clear-resolve-undo force-remove force-untracked-cache "
        "force-write-index fsmonitor fsmonitor-valid ignore-missing ignore-skip-worktree-entries "
        "ignore-submodules index-info index-version= info-only really-refresh refresh remove replace "
        "skip-worktree split-index stdin test-untracked-cache unmerged unresolve untracked-cache verbose"
    ),
    "update-ref": "dzm: create-reflog deref stdin",
    "var": "-",
    "verify-commit": "v raw verbose",
    "verify-tag": "v format= raw verbose",
    "version": "- build-options",
    "worktree": "-",
    "worktree add": "dfqB:b: checkout detach force guess-remote lock quiet reason= track",
    "worktree list": "vz expire= porcelain verbose",
    "worktree lock": "- reason=",
    "worktree move": "f force",
    "worktree prune": "nv dry-run expire= verbose",
    "worktree remove": "f force",
    "worktree repair": "-",
    "worktree unlock": "-",
    "write-tree": "- ignore-cache-tree missing-ok prefix=",
    **dict.fromkeys(
        ("log", "show", "whatchanged", "diff", "diff-files", "diff-index", "diff-tree", "range-diff"), _LOG
    ),
    **dict.fromkeys(("rev-list", "reflog show", "stash show"), _LOG),
    "format-patch": (
        "Nknpqso:v: add-header= attach=? base= binary cc= cover-from-description= cover-letter "
        "creation-factor= filename-max-length= force-in-body-from from=? ignore-if-in-upstream in-reply-to= "
        "inline=? interdiff= keep-subject numbered numbered-files output-directory= progress quiet "
        "range-diff= reroll-count= rfc signature= signature-file= signoff start-number= stdout "
        "subject-prefix= suffix= thread=? to= zero-commit "
        f"| {_DIFF} | {_REVISIONS}"
    ),
    "blame": (
        "bceflnpstwL:S:C?M? abbrev=? color-by-age color-lines contents= ignore-rev= ignore-revs-file= "
        "incremental line-porcelain minimal porcelain progress root score-debug show-email show-name "
        "show-number show-stats "
        f"| {_DIFF} | {_REVISIONS}"
    ),
    "shortlog": (f"censw? committer email group= numbered summary | {_DIFF} | {_REVISIONS}"),
    "annotate": f"bceflnpstwL:S:C?M? | {_DIFF} | {_REVISIONS}",
    "reflog": _LOG,
    "remote": "v verbose",
    "notes": "- ref=",
    "submodule": "q cached quiet",
}
"""The options of git's commands; `--no-name` stands for each `--name`."""
